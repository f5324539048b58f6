/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * Preloaded into sanitized clients: libraries stay mapped after their last dlclose, so that a
 * report at exit can still name the functions in its stacks.
 */

int dlclose(void *handle);

int dlclose(void *handle)
{
    (void)handle;
    return 0;
}
