# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Ports that a test may close and have opened again; for C++ there is own_port.hpp."""

import errno
import random
import socket


def another_port() -> int:
    """Chooses a free port of 127.0.0.1 from those that no system gives to a socket that asks for any.
    A port of any number may be another test's as soon as it is closed."""
    while True:
        port = random.randrange(10_000, 30_000)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
