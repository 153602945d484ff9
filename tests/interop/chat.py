"""Conversations as tokens, beside the chat templates of Hugging Face's `transformers`.

The templates are those that published tokenizers have, put beside small tokenizers of ours.
"""

import json
import random
import subprocess
import unicodedata

from transformers import PreTrainedTokenizerFast

from run import Row

REQUIREMENTS = ["transformers==5.23.0", "jinja2"]

SIMPLE = ("{% for message in messages %}%s{{'<|im_start|>' + message['role'] + '\\n' + "
          "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|im_start|>assistant\\n' }}{% endif %}")
DEFAULT = ("{% if loop.first and messages[0]['role'] != 'system' %}"
           "{{ '<|im_start|>system\\n%s<|im_end|>\\n' }}{% endif %}")
TOOLS = r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nfunction signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\n<tool_call>\n{\"name\": <function-name>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '"}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""
LLAMA3 = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
          "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | "
          "trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}"
          "{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
          "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")

CHATML_MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
LLAMA3_MARKS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                "<|end_of_text|>"]
KINDS = {  # the template, its special tokens, how pieces are cut, and bos_token
    "ChatML": (SIMPLE.replace("%s", ""), CHATML_MARKS, "gpt2", None),
    "SmolLM2": (SIMPLE.replace("%s", DEFAULT.replace(
        "%s", "You are a helpful AI assistant named SmolLM, trained by Hugging Face")),
        CHATML_MARKS, "smollm2", "<|im_start|>"),
    "Qwen2.5": (TOOLS, CHATML_MARKS, "qwen2", None),
    "Llama 3": (LLAMA3, LLAMA3_MARKS, "llama3", "<|begin_of_text|>"),
}
REFUSED = {
    "Mistral": "{{ bos_token }}{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}",
    "Qwen1.5": SIMPLE.replace("%s", "").replace(
        "'<|im_end|>' + '\\n'}}", "'<|im_end|>'}}{% if not loop.last %}{{ '\\n' }}{% endif %}"),
    "thoughts": SIMPLE.replace("%s", "{{ '<think>' }}"),
}

WORDS = ("the of and in to a is that it was for on are with as his they be at one have this "
         "2024 3.14 naïve 日本語 🙂 don't  x\ty \n line\n\nbreak {brace} <tag> C++ e\u0301").split(" ")


def content(draw, begins_with_a_word):
    words = [draw.choice(WORDS) for _ in range(draw.randint(0, 30))]
    text = " ".join(words)
    return text.lstrip() if begins_with_a_word else text


def conversation(draw):
    messages = []
    if draw.random() < 0.5:
        messages.append({"role": "system", "content": content(draw, False)})
    for _ in range(draw.randint(1, 4)):
        messages.append({"role": "user", "content": content(draw, False)})
        messages.append({"role": "assistant", "content": content(draw, True)})
    return messages


def made_tokenizer(place, name, marks, pieces):
    folder = place.work / "chat" / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    corpus = folder / "corpus.txt"
    corpus.write_text(" ".join(WORDS * 50) + " system user assistant\n" * 20)
    special = [word for mark in marks for word in ("--special", mark)]
    place.tapestry("tokenizer", "train", corpus, "--vocabulary", "600", "--pieces", pieces, *special,
                   "--out", folder / "tokenizer.json")
    return folder


def compared(place, name, count):
    template, marks, pieces, bos = KINDS[name]
    folder = made_tokenizer(place, name, marks, pieces)
    settings = {"chat_template": template}
    if bos:
        settings["bos_token"] = bos
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token=bos,
                                     chat_template=template)
    draw = random.Random(7)
    conversations = [conversation(draw) for _ in range(count)]
    lines = "".join(json.dumps({"messages": each}) + "\n" for each in conversations)
    (folder / "talks.jsonl").write_text(lines)
    ours = place.tapestry("tokenizer", "encode", folder / "talks.jsonl", "--conversations",
                          "--tokenizer", folder / "tokenizer.json").splitlines()
    differ = unlearnt = 0
    for messages, line in zip(conversations, ours, strict=True):
        made = json.loads(line)
        expected = theirs.apply_chat_template(messages, tokenize=True, return_dict=False)
        differ += made["tokens"] != list(expected)
        learned = theirs.decode([made["tokens"][i] for i in made["learnt"]])
        end = "<|eot_id|>" if name == "Llama 3" else "<|im_end|>"
        answers = [m["content"] for m in messages if m["role"] == "assistant"]
        wanted = "".join((a.strip() if name == "Llama 3" else a) + end for a in answers)
        if pieces == "qwen2":  # whose tokenizer composes characters
            wanted = unicodedata.normalize("NFC", wanted)
        unlearnt += learned != wanted
    yield Row(f"{name}: tokens of conversations", count, differ)
    yield Row(f"{name}: what of them is learned", count, unlearnt)


def run(place):
    count = 100 if place.quick else 2000
    for name in KINDS:
        yield from compared(place, name, count)
    for name, template in REFUSED.items():
        folder = made_tokenizer(place, "refused", CHATML_MARKS, "gpt2")
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
        (folder / "talks.jsonl").write_text('{"prompt": "a", "completion": "b"}\n')
        try:
            place.tapestry("tokenizer", "encode", folder / "talks.jsonl", "--conversations",
                           "--tokenizer", folder / "tokenizer.json")
            accepted = 1
        except subprocess.CalledProcessError as error:
            accepted = int(error.returncode != 2)
        yield Row(f"{name}: is refused", 1, accepted)
