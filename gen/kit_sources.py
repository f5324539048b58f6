#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""List the sources of the kit that a port is compiled with, for a build outside the tree."""

import argparse
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PORT_SUPPORT_ON = {"linux"}  # it sleeps in epoll
ENGINE = "transports/soft/engine"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--os", required=True, help="folder of osd/")
    parser.add_argument("--soft-engine", action="store_true", help="the software HCA, too")
    parser.add_argument("--unconnected", action="store_true",
                        help="the layer for fabrics without connections, too")
    options = parser.parse_args()
    system = options.os
    folders = ["contract", "common", "common/core", "common/calls", "osd", f"osd/{system}"]
    if system in PORT_SUPPORT_ON:
        folders.append("port_support")
        if options.unconnected:
            folders.append("port_support/unconnected")
    paths = [path for folder in folders for path in sorted((ROOT / folder).glob("*.cpp"))]
    if options.soft_engine:  # what begins with net_ is for one system, and ends with its name
        paths += [path for path in sorted((ROOT / ENGINE).glob("*/*.cpp"))
                  if not path.stem.startswith("net_") or path.stem.endswith(f"_{system}")]
    print("\n".join(str(path) for path in paths))


if __name__ == "__main__":
    main()
