"""What decisions take of a GPUCase goes with the object, however it was made."""

from dataclasses import replace

from gpuward.model.case import CaseState
from gpuward.model.objects.gpu_case import GpuCase, as_case, read_gpu_case, spec_of, status_of, write_gpu_case
from gpuward.model.objects.head import Head
from tests.kit.lives import a_case


def test_a_case_stands_where_its_newest_status_says() -> None:
    opened = a_case()
    found = GpuCase(Head(opened.id), spec_of(opened))
    assert as_case(found).state is CaseState.SUSPECT
    fenced = replace(opened, state=CaseState.FENCED, because="It is fenced.")
    changed = replace(found, status=status_of(fenced))
    assert (as_case(changed).state, as_case(changed).because) == (CaseState.FENCED, "It is fenced.")
    assert as_case(read_gpu_case(write_gpu_case(changed))) == as_case(changed)
