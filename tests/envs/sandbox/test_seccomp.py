import struct

import pytest

from comlrl_envs.sandbox import seccomp


def decided(machine: str, number: int, argument: int = 0, audit: int | None = None) -> int:
    """What the filter answers for one call: a reader of its instructions, apart from the kernel."""
    code = seccomp.program(machine)
    assert code is not None
    lines = [struct.unpack_from("HBBI", code, place) for place in range(0, len(code), 8)]
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine] if audit is None else audit
    memory = {0: number, 4: architecture, 16: argument}
    held, place = 0, 0
    while True:
        operation, then, otherwise, value = lines[place]
        if operation == seccomp.LOAD:
            held = memory[value]
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


def test_other_processors_have_no_filter() -> None:
    assert seccomp.program("riscv64") is None
