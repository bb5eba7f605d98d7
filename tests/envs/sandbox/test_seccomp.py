import socket
import struct

import pytest

from comlrl_envs.sandbox import seccomp


def decided(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter answers for one call: a reader of its instructions, apart from the kernel."""
    code = seccomp.program(machine)
    assert code is not None
    lines = [struct.unpack_from("HBBI", code, place) for place in range(0, len(code), 8)]
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine] if audit is None else audit
    memory = {
        0: number,
        4: architecture,
        **{16 + 8 * place: value for place, value in enumerate((*arguments, 0, 0)[:2])},
    }
    held, place = 0, 0
    while True:
        operation, then, otherwise, value = lines[place]
        if operation == seccomp.LOAD:
            held = memory[value]
        elif operation == seccomp.KEEP_BITS:
            held &= value
        elif operation == seccomp.RETURN:
            return value
        else:
            met = {
                seccomp.EQUAL: held == value,
                seccomp.AT_LEAST: held >= value,
                seccomp.ANY_BIT: bool(held & value),
            }[operation]
            place += then if met else otherwise
        place += 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_decides_as_its_table_says(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    for name, numbers in seccomp.DENIED.items():
        if numbers[column] is not None:
            assert decided(machine, numbers[column]) == seccomp.EPERM, name
    for number in ((0, 1, 9), (63, 64, 222))[column]:
        assert decided(machine, number) == seccomp.ALLOW
    assert decided(machine, seccomp.CLONE3) == seccomp.ENOSYS
    assert decided(machine, seccomp.CLONE[column], 0x11) == seccomp.EPERM
    assert decided(machine, seccomp.CLONE[column], seccomp.CLONE_THREAD | 0xF00) == seccomp.ALLOW
    assert decided(machine, seccomp.PRLIMIT[column], 0) == seccomp.ALLOW
    assert decided(machine, seccomp.PRLIMIT[column], 1) == seccomp.EPERM
    assert decided(machine, 1, audit=0x40000003) == seccomp.KILL


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_looks_at_arguments(machine: str) -> None:
    column = ("x86_64", "aarch64").index(machine)
    for numbers, place, values in seccomp.DENIED_ARGUMENTS.values():
        before = (7,) * ((place - seccomp.AT_FIRST_ARGUMENT) // 8)
        for value in values:
            assert decided(machine, numbers[column], *before, value) == seccomp.EPERM
    fcntl, ioctl, prctl = ((72, 16, 157), (25, 29, 167))[column]
    # Flags (also to be non-blocking, by both calls), locks, duplicates, sizes of terminals, names of threads.
    for allowed in (0, 1, 2, 3, 4, 6, 1030):
        assert decided(machine, fcntl, 8, allowed) == seccomp.ALLOW
    for allowed in (0x5401, 0x5413, 0x5421, 0x541B):
        assert decided(machine, ioctl, 0x8901, allowed) == seccomp.ALLOW
    assert decided(machine, prctl, 15, 1) == seccomp.ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_pairs_of_sockets_are_streams(machine: str) -> None:
    pair = dict(zip(("x86_64", "aarch64"), seccomp.SOCKETPAIR, strict=True))[machine]
    for flags in (0, socket.SOCK_NONBLOCK, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC):
        assert decided(machine, pair, socket.AF_UNIX, socket.SOCK_STREAM | flags) == seccomp.ALLOW
        for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
            assert decided(machine, pair, socket.AF_UNIX, kind | flags) == seccomp.EPERM
        assert decided(machine, pair, 30, socket.SOCK_STREAM | flags) == seccomp.EPERM


def test_other_processors_have_no_filter() -> None:
    assert seccomp.program("riscv64") is None
