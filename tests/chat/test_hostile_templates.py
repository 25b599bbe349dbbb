"""A template is a stranger's program: it reaches nothing, and the system limits its process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.engines import once

from bpetite import Tokenizer
from bpetite.chat import ChatTemplate, ChatTemplateError

pytestmark = once

MESSAGES = [{"role": "user", "content": "some words"}]

ESCAPES = {
    "Python inside": "{{ ''.__class__.__mro__ }}",
    "Python in a format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "Python behind dict": "{{ dict.mro() }}",
    "the runs of a text": "{{ messages[0].content._origins[0] }}",
    "other runs for a text": "{{ messages[0].content.changed(-2) }}",
    "the origin of a message": "{{ messages[0].origin_ + 1 }}",
    "the origin of a list": "{{ messages.origin_ + 1 }}",
    "printed namespace": "{% set n = namespace() %}{{ n }}",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_template_reaches_no_more_than_its_arguments(name: str) -> None:
    with pytest.raises(ChatTemplateError):
        ChatTemplate(ESCAPES[name]).render(MESSAGES)


def test_error_has_the_line_of_the_template() -> None:
    with pytest.raises(ChatTemplateError) as caught:
        ChatTemplate("a\nb\n{{ 'x'.center('y') }}").render(MESSAGES)
    assert caught.value.line == 3


def test_nesting_too_deep_to_compile_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="nested too deeply"):
        ChatTemplate("{{ " + "(" * 9999 + "1" + ")" * 9999 + " }}")


@pytest.mark.skipif(sys.platform in ("win32", "emscripten"), reason="needs limits of a process")
@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content }}",
        "{{ 'x' * 99999999999 }}",
        pytest.param(
            "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2, marks=pytest.mark.slow
        ),
    ],
)
def test_the_program_of_the_guide_limits_a_template(source: str, tmp_path: Path) -> None:
    document = ROOT.joinpath("docs", "chat.md").read_text("utf-8")
    (program,) = re.findall("```python\n(import json, resource.*?)```", document, re.S)
    tmp_path.joinpath("limited.py").write_text(program, "utf-8")
    tokenizer = Tokenizer.train("some words", 260)
    tokenizer.save(tmp_path / "own.json")
    process = subprocess.run(
        [sys.executable, "limited.py"],
        input=json.dumps(["own.json", source, MESSAGES]),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    if "content" in source:
        assert json.loads(process.stdout) == tokenizer.encode("some words")
    else:
        assert process.returncode != 0
