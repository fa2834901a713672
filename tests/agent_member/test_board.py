"""What people see on the node itself of an agent in a cluster."""

from gpuward.agent.board import board_object
from gpuward.agent.post import Post
from tests.agent_member.node import NODE, Node


def test_the_board_shows_every_gpu_and_the_mode_that_the_cluster_last_gave() -> None:
    node = Node()
    member = node.agent(Post(), node.time, NODE)
    rounds = iter([False, True])
    member.run(lambda: next(rounds))
    board = board_object(member.board())
    assert board["mode"] == "observe"
    assert [gpu["pci"] for gpu in board["gpus"]] == sorted(node.driver.gpus)
