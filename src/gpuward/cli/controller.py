"""`gpuward controller`: the loop of a cluster, started and ended. The loop is in controller.loop."""

import argparse
import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from dataclasses import replace

from gpuward.cli import wiring
from gpuward.cli.voice import speaker, warn
from gpuward.cli.wiring.cluster import access_of
from gpuward.cli.wiring.numbers import exposition, shown
from gpuward.cli.wiring.rebooting import reboot_terms
from gpuward.controller.leading import Leading, LeaseTerms
from gpuward.controller.loop import Controller
from gpuward.controller.numbers import Numbers
from gpuward.controller.pace import Pace
from gpuward.controller.terms import Terms
from gpuward.model.case import Mode
from gpuward.ports import EdgeError
from gpuward.settings import Settings

TROUBLE_SECONDS = 5.0
"""How often it is looked whether there is trouble to tell; the same is told once."""


def controller(asked: argparse.Namespace) -> int:
    """Run the command until a signal ends it; return its exit code."""
    settings, judged = wiring.judgement(asked.config, None)
    terms = cluster_terms(settings, asked.mode, namespace=asked.namespace)
    return asyncio.run(_run(asked, replace(terms, fault_seconds=judged.rules.longest_seconds)))


def cluster_terms(chosen: Settings, mode: str | None, *, namespace: str) -> Terms:
    """Return the terms of a cluster; a mode of the command line goes before that of every pool."""
    settings = chosen.cluster
    pools = (settings.default, *settings.pools)
    default, *pools_ = (pool if mode is None else replace(pool, mode=Mode(mode)) for pool in pools)
    return Terms(
        mode=default.mode,
        namespace=namespace,
        approval=default.approval,
        probation_seconds=default.probation_seconds,
        eviction=default.eviction,
        taint=settings.taint,
        kinds=wiring.taint_words(),
        brake=default.brake,
        brakes=default.brakes,
        budget=default.budget,
        pools=tuple(pools_),
        rack_label=settings.rack_label,
        fabric_labels=settings.fabric_labels,
        case_seconds=settings.keep_days * 86_400.0,
        lost_seconds=settings.losing.lost_seconds,
        back_seconds=settings.losing.back_seconds,
        proof_seconds=settings.losing.proof_seconds,
        reboot=reboot_terms(chosen.reboot),
    )


async def _run(asked: argparse.Namespace, terms: Terms) -> int:
    identity = f"{wiring.host_name()}_{os.getpid()}_{random.getrandbits(32):08x}"
    lease = LeaseTerms(
        namespace=asked.namespace,
        lease_seconds=asked.lease_seconds,
        lead_seconds=asked.lease_seconds * 2 / 3,
        retry_seconds=asked.lease_seconds * 2 / 15,
    )
    async with access_of(asked.kubeconfig) as cluster:
        pace = Pace(wiring.clock(), asyncio.sleep, random.random)
        leading = Leading(cluster, identity, pace=pace, terms=lease)
        say = speaker(wiring.zone(None), as_json=asked.json, kept="the GPUCases have it", of_fleet=True)
        counted = exposition() if asked.metrics_port else None
        loop = Controller(cluster, pace=pace, terms=terms, tell=say, leads=leading.leads, meter=counted)
        leading.ring = loop.ring
        warn(f"controller {identity} in mode {terms.mode}: it stands for election in namespace {asked.namespace}")
        async with contextlib.AsyncExitStack() as stack:
            if counted is not None:
                numbers = Numbers(loop, pace=pace, terms=terms, leads=leading.leads)
                await stack.enter_async_context(shown(counted, numbers, asked.metrics_port))
            await stack.enter_async_context(_released(leading))
            await _until_stopped(loop, leading)
    return 0


@contextlib.asynccontextmanager
async def _released(leading: Leading) -> AsyncIterator[None]:
    """Give the Lease back at the end, so that another controller leads at once; that it cannot is no trouble."""
    try:
        yield
    finally:
        with contextlib.suppress(EdgeError):
            await leading.release()


async def _until_stopped(loop: Controller, leading: Leading) -> None:
    """Work until a signal comes; what ends one of the tasks before ends all."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    work = [
        asyncio.ensure_future(leading.run()),
        asyncio.ensure_future(loop.run()),
        asyncio.ensure_future(_tell_trouble(loop, leading)),
        asyncio.ensure_future(stop.wait()),
    ]
    try:
        done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


async def _tell_trouble(loop: Controller, leading: Leading) -> None:
    """Tell what goes wrong, each thing once for as long as it lasts, and who leads."""
    told: set[str] = set()
    led = False
    while True:
        if leading.leads() is not led:
            led = not led
            warn("this controller leads now" if led else "this controller leads no more")
        troubles = {
            sentence
            for sentence in (leading.trouble, *loop.newest.troubles, *loop.voice.troubles, loop.pruner.trouble)
            if sentence
        }
        for sentence in sorted(troubles - told):
            warn(sentence)
        told = troubles
        await asyncio.sleep(min(TROUBLE_SECONDS, 1.0) if not led else TROUBLE_SECONDS)
