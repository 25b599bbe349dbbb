"""Small chat templates that have every feature, and a tokenizer for them."""

from __future__ import annotations

from bpetite import Tokenizer

CHATML = """\
{%- macro called(call) %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{% endmacro -%}
{%- if tools %}<|im_start|>system
{%- if messages[0].role == 'system' %}{{- '\\n' + messages[0].content ~ '\\n' }}{% endif %}
<tools>{% for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{% endfor %}</tools><|im_end|>
{% elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- elif message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if message.reasoning_content is string %}{{- '<think>\\n' ~ message.reasoning_content.strip('\\n') ~ '\\n</think>\\n\\n' }}{% endif %}
{{- message.content }}
{%- for call in message.tool_calls or [] %}{{ '\\n' }}{{ called(call) }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response><|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}
"""

TEMPLATES = {
    "chatml": CHATML,
    "headers": """\
{{- bos_token }}
{%- set date = date_string if date_string is defined else '26 Jul 2024' %}
{%- for message in messages %}
{%- if message['content'] is string %}{% set text = message['content'] %}
{%- else %}{% set text = message['content'] | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('') %}{% endif %}
{{- '<|header|>' + message['role'] + '<|end_header|>\\n\\n' + text | trim + '<|eot|>' }}
{%- if tools is not none and loop.first %}{{ date }}{{ tools | tojson(indent=4) }}{% endif %}
{%- endfor %}
{%- for document in documents or [] %}{{ document.title | upper }}: {{ document['text'] }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|header|>assistant<|end_header|>\\n\\n' }}{% endif %}
""",
    "alternating": """\
{%- set ns = namespace(system='', turns=[]) %}
{%- for m in messages %}
{%- if m.role == 'system' %}{% set ns.system = m.content %}
{%- else %}{% set ns.turns = ns.turns + [m] %}{% endif %}
{%- endfor %}
{{- bos_token }}
{%- for m in ns.turns %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}
{{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
{%- endif %}
{%- if m.role == 'user' %}
{%- if loop.first and ns.system %}{% set content = '<<SYS>>\\n' ~ ns.system ~ '\\n<</SYS>>\\n\\n' ~ m.content %}
{%- else %}{% set content = m.content %}{% endif %}
{{- '[INST] %s [/INST]' % content.strip() }}
{%- else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% endif %}
{%- endfor %}
""",
    "roles in tags": """\
{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}
""",
    "last thought": """\
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{ '<｜Assistant｜>' }}
{%- if loop.last and m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content.split('</think>')[-1] }}{{ eos_token }}
{%- else %}{{ '<｜User｜>' ~ m.content }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}
""",
    "blocks": """\
{%- set count = namespace(images=0) %}
{%- for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}
{% if m.content is string %}{{ m.content | trim }}{% else %}
{%- for block in m.content %}{% if block.type == 'image' %}{% set count.images = count.images + 1 %}<image>
{%- elif block.type == 'text' %}{{ block['text'] | trim }}{% endif %}{% endfor %}{% endif %}<end_of_turn>
{% endfor %}{% if add_generation_prompt %}<start_of_turn>model
{% endif %}""",
    "letters": """\
{%- macro shouted(text) %}{% for letter in text %}{{ letter | upper }}{% if loop.last %}!{% endif %}{% endfor %}{% endmacro %}
{%- for m in messages %}<m>{{ shouted(m.role) }}{% for key, value in m | dictsort %}
{%- if key == 'content' %}{{ '{}{:s}'.format(key, '=') }}{{ value[:3] ~ value[3:] | replace('\\n', '<br>') | safe }}{% endif %}
{%- continue %}{% endfor %}</m>{% endfor %}
{%- filter lower %}<M>{% for m in messages if m.role == 'user' %}{{ m.content }}{% else %}NONE{% endfor %}{% endfilter %}
{%- set last %}{{ messages[-1].content }}{% endset %}{{ last | indent }}
""",
    "generation": """\
{%- for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\\n' }}
{%- if m.role == 'assistant' %}{% generation %}{{ m.content }}
{%- for call in m.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>{% endgeneration %}
{%- else %}{{ m.content ~ '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
""",
}  # fmt: skip

LITERALS = (
    *("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>", "<s>"),
    *("</s>", "<|header|>", "<|end_header|>", "<|eot|>", "[INST]", "[/INST]", "<|user|>", "<br>"),
    *("<|assistant|>", "<|system|>", "<|end|>", "<｜User｜>", "<｜Assistant｜>", "<image>"),
    *("<start_of_turn>", "<end_of_turn>", "<tool_response>", "</tool_response>"),
)


def tokenizer() -> Tokenizer:
    """Return a small tokenizer with the special tokens of all these templates."""
    return Tokenizer.train(
        "user assistant the weather is sunny, and what of it? the answer: the text", 300,
        special_tokens=LITERALS,
    )  # fmt: skip
