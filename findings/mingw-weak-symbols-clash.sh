#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# binutils-mingw-w64-x86-64 2.40-2+10.4 (Debian 12). Two objects that begin with the same inline function; one
# defines a weak function, the other calls it by a weak reference.
# Guess: they link, as they do on Linux.
# Seen: "multiple definition of `.weak.answer.first'". The assembler makes a second symbol for each weak one,
# and names it after the first global symbol of the object, to have it unique; inline functions are global and
# the same in many objects. They link if another global symbol comes first in one of the objects. gcc makes
# __cxa_pure_virtual weak in whatever has an abstract class, so that sources which are joined in a few large
# ones, and define it themselves, may meet this.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root binutils-mingw-w64-x86-64=2.40-2+10.4
dpkg -x ./*.deb .
tool=usr/bin/x86_64-w64-mingw32

inline_function=$(printf '%s\n' '.section .text$first,"x"' '.linkonce discard' '.globl first' 'first: ret')
printf '%s\n' "$inline_function" .text '.weak answer' 'answer: ret' >defines.s
refers='.weak answer
call answer'
printf '%s\n' "$inline_function" .text '.globl start' 'start:' "$refers" ret >begins-alike.s
printf '%s\n' .text '.globl start' 'start:' "$refers" ret "$inline_function" >begins-otherwise.s
for each in *.s; do "$tool-as" "$each" -o "${each%.s}.o"; done

for each in begins-alike begins-otherwise; do
    if said=$("$tool-ld" -e start defines.o "$each.o" -o "$each.exe" 2>&1); then
        echo "$each: links"
    else
        echo "$each:$(grep -o ' multiple definition of .*;' <<<"$said")"
    fi
done | tee output
diff - output <<'SEEN'
begins-alike: multiple definition of `.weak.answer.first';
begins-otherwise: links
SEEN
echo "as seen before"
