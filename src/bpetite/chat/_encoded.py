"""The ids of a prompt, whose they are, and which of them an assistant wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import accumulate, pairwise

from bpetite import Tokenizer
from bpetite.chat._prompt import ChatTemplateError, Origin, OriginText, RenderedPrompt, encoded

_ASSISTANTS = ("assistant", "model")  # roles whose messages `labels` keeps


class Encoded:
    """The ids of a rendered prompt.

    >>> from bpetite import Tokenizer
    >>> from bpetite.chat import ChatTemplate
    >>> template = ChatTemplate("{% for m in messages %}<u>{{ m.content }}</u>{% endfor %}")
    >>> tokenizer = Tokenizer.train("", 256, special_tokens=["<u>", "</u>"])
    >>> encoded = template.encode(tokenizer, [{"role": "user", "content": "a"}])
    >>> encoded.ids
    [256, 97, 257]
    >>> encoded.origins
    ['template', 'message', 'template']
    >>> encoded.messages
    [range(1, 2)]
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt: RenderedPrompt,
        has_generation: bool,
        rendered: Callable[[int, bool], RenderedPrompt],
        ids: Iterable[int] | None = None,
        guard: Iterable[str] | None = None,
    ) -> None:
        self.prompt: RenderedPrompt = prompt
        """The prompt of these ids."""
        self.ids: list[int]
        """The ids, from `encode_parts` for the segments, or as `encode` was given them."""
        if ids is None:
            guard = None if guard is None else frozenset(guard)
            prompt.check(tokenizer, guard=guard)
            self.ids, self._offsets = tokenizer.encode_parts(prompt.segments, guard=guard)
        else:
            self.ids = [*ids]
            self._starts = _starts_of([*map(tokenizer.token_bytes, self.ids)], prompt.text), True
        self._tokenizer = tokenizer
        self._has_generation = has_generation
        self._rendered = rendered

    @property
    def origins(self) -> list[Origin]:
        """For each id, where its first character comes from."""
        return [text.origin for text in self._sources]

    @property
    def message_numbers(self) -> list[int | None]:
        """For each id, the number of the message that has its first character, or None."""
        return [text.message for text in self._sources]

    @property
    def roles(self) -> list[str | None]:
        """For each id, the role of that message, or None."""
        return [text.role for text in self._sources]

    @property
    def messages(self) -> list[range]:
        """For each message, the range from its first id to its last. One without text is empty."""
        found: dict[int, tuple[int, int]] = {}
        for index, number in enumerate(self.message_numbers):
            if number is not None:
                found[number] = found.get(number, (index, 0))[0], index + 1
        ranges = []
        end = 0
        for number in range(len(self.prompt.roles)):
            start, end = found.get(number, (end, end))
            ranges.append(range(start, end))
        return ranges

    def labels(self, ignore: int = -100) -> list[int]:
        r"""Return the ids that an assistant writes, and `ignore` instead of all others.

        If the template has `{% generation %}`, these are the ids with a character inside such a
        block. Otherwise they begin where the prompt that asks for the message would end, and end
        with the token that ends the message.

        Raises ValueError if an assistant's message has no such place in the prompt, and if the
        vocabulary changes texts so that the characters of an id are not known.

        >>> from bpetite import Tokenizer
        >>> from bpetite.chat import ChatTemplate
        >>> template = ChatTemplate(
        ...     "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n{% endfor %}"
        ...     "{% if add_generation_prompt %}<assistant>{% endif %}"
        ... )
        >>> tokenizer = Tokenizer.train("", 256, special_tokens=["<end>"])
        >>> messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
        >>> [id for id in template.encode(tokenizer, messages).labels() if id >= 0]
        [97, 256]
        """
        starts, is_exact = self._starts
        if not is_exact:
            raise ValueError(
                "this vocabulary changes texts, and a message has a special token's literal, so "
                "the characters of each id are not known"
            )
        labels = [ignore] * len(self.ids)
        for start, end in self._generated() if self._has_generation else self._assistants():
            index = bisect_right(starts, start) - 1
            while index < len(self.ids) and starts[index] < end:
                if starts[index + 1] > start:
                    labels[index] = self.ids[index]
                index += 1
        return labels

    @cached_property
    def _starts(self) -> tuple[list[int], bool]:
        """Where each id begins in the UTF-8 of the text, with the end; and whether this is exact.

        If it is not exact, an id begins where its segment does.
        """
        text = self.prompt.text
        size = len(text.encode())
        ids, starts = self._tokenizer.encode_with_offsets(text, unit="bytes")
        if ids == self.ids:
            return [*starts, size], True
        lengths = [len(self._tokenizer.token_bytes(id)) for id in self.ids]
        if sum(lengths) == size:
            return [0, *accumulate(lengths)], True
        ends = [0, *accumulate(len(part.encode()) for part in self.prompt.segments)]
        counts = (stop - start for start, stop in pairwise(self._offsets))
        pairs = zip(ends, counts, strict=False)
        return [*(start for start, count in pairs for _ in range(count)), size], False

    @cached_property
    def _sources(self) -> list[OriginText]:
        """For each id, the text that has its first character."""
        begins, starts = [start for start, _, _ in self._spans()], self._starts[0]
        texts = self.prompt.texts
        return [texts[bisect_right(begins, start) - 1] for start in starts[:-1]]

    def _spans(self) -> list[tuple[int, int, OriginText]]:
        """Return where each text of one origin begins and ends in the UTF-8 of the prompt."""
        texts = self.prompt.texts
        bounds = pairwise(accumulate((len(encoded(each.text)) for each in texts), initial=0))
        return [(*span, text) for span, text in zip(bounds, texts, strict=True)]

    def _generated(self) -> list[tuple[int, int]]:
        return [(start, end) for start, end, text in self._spans() if text.generated]

    def _assistants(self) -> list[tuple[int, int]]:
        """Return the span of each assistant's message in the UTF-8 of the text."""
        text = self.prompt.text
        spans = []
        for number, role in enumerate(self.prompt.roles):
            if role in _ASSISTANTS:
                start, end = self._span(number)
                before = len(encoded(text[:start]))
                spans.append((before, before + len(encoded(text[start:end]))))
        return spans

    def _span(self, number: int) -> tuple[int, int]:
        """Return where an assistant's message begins and ends in the text.

        Two other prompts are rendered for this: one that asks for the message, and one that ends
        with it.
        """
        if not number:
            raise _placeless(number, "no message comes before it")
        try:
            asking = self._rendered(number, True)
            ending = self._rendered(number + 1, False)
        except ChatTemplateError as error:
            raise _placeless(
                number, f"the template refuses the messages up to it: {error}"
            ) from error
        prompt, text, ending_text = self.prompt, self.prompt.text, ending.text
        start = _beginning(prompt, asking, number)
        begin = _beginning(ending, asking, number)
        own_end = max((end for _, end in _runs_of(ending, number)), default=begin)
        place = start + own_end - begin
        if text[start:place] != ending_text[begin:own_end]:
            # Later messages have changed the turn, so its text ends where the next message begins.
            later = (first for first, _ in _runs_of(prompt, number + 1, len(prompt.roles)))
            bound = min((first for first in later if first > start), default=len(text))
            own = (end for _, end in _runs_of(prompt, number) if start <= end <= bound)
            place = max(own, default=start)
        footer = ending_text[own_end:]
        return start, place + self._end_token(footer[: _common(text, place, footer)])

    def _end_token(self, footer: str) -> int:
        """Return where the token that ends a turn ends in the text after the turn."""
        end_token = self._tokenizer.settings.get("eos_token")
        if end_token and end_token in footer:
            return footer.index(end_token) + len(end_token)
        ends = (
            footer.rindex(literal) + len(literal)
            for literal in self._tokenizer.special_tokens
            if literal and literal in footer
        )
        return max(ends, default=len(footer.rstrip()))


def _starts_of(tokens: list[bytes], text: str) -> list[int]:
    """Return where each token begins in the UTF-8 of a text, and the end; the text begins so."""
    starts = [*accumulate(map(len, tokens), initial=0)]
    data = encoded(text)
    for number, (start, token) in enumerate(zip(starts, tokens, strict=False)):
        if not data.startswith(token, start):
            raise ValueError(
                f"the ids do not spell the prompt: at index {number}, they have {token!r}, but the "
                f"prompt has {data[start : start + 20]!r}; give the messages the text of the ids"
            )
    return starts


def _beginning(prompt: RenderedPrompt, asking: RenderedPrompt, number: int) -> int:
    """Return where a message begins: where the prompt that asks for it would end.

    If earlier turns look different in that prompt, only its text after them is compared. If the
    text before the message ends in another way, the message begins with its own characters.
    """
    text, asking_text = prompt.text, asking.text
    if text.startswith(asking_text):
        return len(asking_text)
    own = min((start for start, _ in _runs_of(prompt, number)), default=None)
    if own is None:
        raise _placeless(number, "it has no text, and later messages have changed earlier ones")
    place = max((end for _, end in _runs_of(prompt, 0, number) if end <= own), default=0)
    header = asking_text[max((end for _, end in _runs_of(asking, 0, number)), default=0) :]
    common = _common(text, place, header)
    if common < len(header) and place + common != own:
        reason = f"it does not follow {header!r:.80}, with which the prompt that asks for it ends"
        raise _placeless(number, reason)
    return place + common


def _runs_of(prompt: RenderedPrompt, first: int, stop: int | None = None) -> list[tuple[int, int]]:
    """Return start and end of each run of a message, or of the messages up to `stop`."""
    numbers = range(first, first + 1 if stop is None else stop)
    found = []
    start = 0
    for each in prompt.texts:
        end = start + len(each.text)
        if each.message in numbers:
            found.append((start, end))
        start = end
    return found


def _common(text: str, place: int, other: str) -> int:
    """Return how many characters of a text, from a place on, another text begins with."""
    pairs = enumerate(zip(text[place : place + len(other)], other, strict=False))
    first = next((count for count, (one, two) in pairs if one != two), None)
    return min(len(text) - place, len(other)) if first is None else first


def _placeless(number: int, reason: str) -> ValueError:
    return ValueError(
        f"message {number} has no unique place in the prompt: {reason}; use a template with "
        f"{{% generation %}}"
    )
