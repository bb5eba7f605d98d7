"""A filter of system calls for candidate programs: no processes, no programs, no sockets, no signals to others.

Written for the kernel's classic BPF without a library. Where the kernel or the processor is another one, ``install``
says so and nothing is filtered.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050001, 0x00050026
LOAD, EQUAL, AT_LEAST, ANY_BIT, KEEP_BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
AT_NUMBER, AT_ARCHITECTURE, AT_FIRST_ARGUMENT, AT_SECOND_ARGUMENT = 0, 4, 16, 24
"""Where the kernel puts what a filter reads: of each argument the lower half, and none of those below has another."""
CLONE_THREAD = 0x00010000
X32 = 0x40000000
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER_MODE = 38, 22, 2

DENIED = {
    # processes and programs
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    # signals to others, their memory and their limits
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setattr": (314, 274),
    "setpgid": (109, 154), "setsid": (112, 157), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # sockets (a connected pair within the process stays), and ways around them
    "socket": (41, 198), "connect": (42, 203), "accept": (43, 202), "bind": (49, 200), "listen": (50, 201),
    "accept4": (288, 242), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # what outlives a process
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "semctl": (66, 191), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219),
    # the machine
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "init_module": (175, 105),
    "delete_module": (176, 106), "finit_module": (313, 273), "kexec_load": (246, 104), "kexec_file_load": (320, 294),
    "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "clock_adjtime": (305, 266), "quotactl": (179, 60), "syslog": (103, 116), "personality": (135, 92),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "fanotify_init": (300, 262), "seccomp": (317, 277), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "mknod": (133, None), "mknodat": (259, 33), "vhangup": (153, 58),
    "lookup_dcookie": (212, 18), "mbind": (237, 235), "set_mempolicy": (238, 237),
}  # fmt: skip
"""Number of each call on x86_64 and on aarch64."""
DENIED_ARGUMENTS = {
    # A descriptor's owner gets a signal of choice for what happens on it: F_SETOWN, F_SETSIG, F_SETOWN_EX.
    "fcntl": ((72, 25), AT_SECOND_ARGUMENT, (8, 10, 15)),
    # The same by FIOSETOWN, SIOCSPGRP, FIOASYNC. A terminal signals its processes, and takes what seems typed:
    # TIOCSCTTY, TIOCSPGRP, TIOCSTI, TIOCLINUX, TIOCNOTTY, TIOCVHANGUP, TIOCSIG.
    "ioctl": (
        (16, 29),
        AT_SECOND_ARGUMENT,
        (0x8901, 0x8902, 0x5452, 0x540E, 0x5410, 0x5412, 0x541C, 0x5422, 0x5437, 0x40045436),
    ),
    # PR_SET_PDEATHSIG: the signal by which this process ends with its parent stays set.
    "prctl": ((157, 167), AT_FIRST_ARGUMENT, (1,)),
}
"""Number of each call on x86_64 and on aarch64, place of an argument, and the values of it that are denied."""
SOCKETPAIR = (53, 199)
UNIX, STREAM, KIND_OF_SOCKET = 1, 1, 0xF
PRLIMIT = (302, 261)
CLONE = (56, 220)
CLONE3 = 435
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


@functools.cache
def program(machine: str) -> bytes | None:
    """The filter for a processor by its ``platform.machine()``, or None if there is none for it."""
    if machine not in _ARCHITECTURES:
        return None
    audit, column = _ARCHITECTURES[machine]
    code: list[tuple[int, int, int, int]] = [
        (LOAD, 0, 0, AT_ARCHITECTURE),
        (EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, AT_NUMBER),
        (AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, EPERM),
    ]
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, EPERM)]
    for numbers, place, values in DENIED_ARGUMENTS.values():
        code += [(EQUAL, 0, 2 + 2 * len(values), numbers[column]), (LOAD, 0, 0, place)]
        for value in values:
            code += [(EQUAL, 0, 1, value), (RETURN, 0, 0, EPERM)]
        code.append((RETURN, 0, 0, ALLOW))
    # Event loops take a pair of streams. One of datagrams could send to any listener by its address.
    code += [
        (EQUAL, 0, 7, SOCKETPAIR[column]),
        (LOAD, 0, 0, AT_FIRST_ARGUMENT),
        (EQUAL, 0, 4, UNIX),
        (LOAD, 0, 0, AT_SECOND_ARGUMENT),
        (KEEP_BITS, 0, 0, KIND_OF_SOCKET),
        (EQUAL, 0, 1, STREAM),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, EPERM),
    ]
    # glibc falls back from clone3, whose flags a filter cannot read, to clone, whose flags it can: threads work.
    code += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ENOSYS)]
    code += [
        (EQUAL, 0, 4, CLONE[column]),
        (LOAD, 0, 0, AT_FIRST_ARGUMENT),
        (ANY_BIT, 0, 1, CLONE_THREAD),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, EPERM),
    ]
    # A process may ask for limits of its own, not set those of another.
    code += [
        (EQUAL, 0, 4, PRLIMIT[column]),
        (LOAD, 0, 0, AT_FIRST_ARGUMENT),
        (EQUAL, 0, 1, 0),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, EPERM),
    ]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *line) for line in code)


@functools.lru_cache(maxsize=1)
def prepared() -> tuple[_Program, object] | None:
    """What ``install`` gives to the kernel, with the memory it points into; None where there is no filter."""
    code = program(platform.machine())
    if code is None:
        return None
    buffer = ctypes.create_string_buffer(code, len(code))
    return _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p)), buffer


def install(libc: ctypes.CDLL) -> bool:
    """Filter this process from now on, for good; False where the kernel takes no filter."""
    filtered = prepared()
    if filtered is None or libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(SET_SECCOMP, FILTER_MODE, ctypes.byref(filtered[0]), 0, 0) == 0)
