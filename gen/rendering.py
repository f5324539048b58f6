# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Templates, as all generators here read them: with marks that C++ takes for comments."""

import functools
import pathlib

import jinja2

environment = jinja2.Environment(
    block_start_string="/*%", block_end_string="%*/",
    variable_start_string="/*{", variable_end_string="}*/",
    comment_start_string="/*#", comment_end_string="#*/",
    undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    keep_trailing_newline=True,
)


compiled = functools.cache(environment.from_string)


def render(template: pathlib.Path, **values: object) -> str:
    """The text of a template; it finds its own file name in `template`."""
    try:
        ready = compiled(template.read_text())
        return ready.render(template=template.name, **values)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        raise jinja2.TemplateError(f"{template}:{line or '?'}: {error}") from error
