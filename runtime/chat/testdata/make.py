"""Makes want/ with Jinja2: each template applied to each conversation, set up as the reference renderer does.

want/TEMPLATE/CONVERSATION.txt is the prompt; CONVERSATION.raised.txt the sentence of the template's raise_exception;
CONVERSATION.fails.txt, empty, says that Jinja2 gives another error. Templates are those of templates/, the built-in ones
(builtin-NAME), and those that shared vocabulary files carry (vocab-NAME, not committed here).
Usage: python3 make.py   (needs jinja2 3.1)
"""
import importlib.util
import json
import os
import shutil
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("snippets", os.path.join(HERE, "../jinja/testdata/make.py"))
snippets = importlib.util.module_from_spec(spec)
spec.loader.exec_module(snippets)


def read(path):
    with open(path, encoding="utf-8", newline="") as f:
        return f.read()


def vocabulary_template(path):
    data = open(path, "rb").read()
    key = b"tokenizer.chat_template"
    i = data.find(key)
    if i < 0:
        return None
    i += len(key)
    kind, size = struct.unpack_from("<IQ", data, i)
    assert kind == 8
    return data[i + 12 : i + 12 + size].decode()


templates = {}
for name in sorted(os.listdir(os.path.join(HERE, "templates"))):
    templates[name.removesuffix(".jinja")] = read(os.path.join(HERE, "templates", name))
for name in sorted(os.listdir(os.path.join(HERE, "../templates"))):
    templates["builtin-" + name.removesuffix(".jinja")] = read(os.path.join(HERE, "../templates", name))
shared = os.path.join(HERE, "../../../../shared/vocab")
if os.path.isdir(shared):
    for name in sorted(os.listdir(shared)):
        if name.endswith(".gguf"):
            text = vocabulary_template(os.path.join(shared, name))
            if text:
                templates["vocab-" + name.removesuffix(".gguf")] = text

for template, text in templates.items():
    folder = os.path.join(HERE, "want", template)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    names = sorted(os.listdir(os.path.join(HERE, "conversations")))
    if template[0] == "j" and template < "j13":  # one construct each
        names = ["turns.json"]
    for name in names:
        c = json.loads(read(os.path.join(HERE, "conversations", name)))
        variables = dict(
            messages=c["messages"],
            add_generation_prompt=c.get("add_generation_prompt", False),
            tools=c.get("tools"),
            documents=None,
            bos_token="<s>",
            eos_token="</s>",
            **c.get("variables", {}),
        )
        try:
            result, kind = snippets.environment().from_string(text).render(**variables), ".txt"
        except snippets.Raised as e:
            result, kind = str(e), ".raised.txt"
        except Exception:
            result, kind = "", ".fails.txt"
        with open(os.path.join(folder, name.removesuffix(".json") + kind), "w", encoding="utf-8", newline="") as f:
            f.write(result)
