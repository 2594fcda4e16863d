"""Makes snippets.json from snippets.txt with Jinja2, set up as the reference renderer of chat templates sets it up.

A line of snippets.txt is a template; the sign ⏎ stands for a line break. The result of each is its output, or null where
Jinja2 refuses it (the messages differ, so they are not compared).
Usage: python3 make.py   (needs jinja2 3.1)
"""
import datetime
import json
import os

from jinja2 import ext, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2025, 1, 2, 3, 4, 5)


class Generation(ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class Raised(Exception):
    pass


def raise_exception(message):
    raise Raised(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, ext.loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


VARIABLES = {
    "messages": [
        {"role": "user", "content": "u1"},
        {"role": "assistant", "content": "a1"},
        {"role": "user", "content": "u2"},
    ],
    "args": {"b": 1, "a": "x"},
}

if __name__ == "__main__":
    out = []
    for line in open(os.path.join(HERE, "snippets.txt"), encoding="utf-8").read().split("\n")[:-1]:
        template = line.replace("⏎", "\n")
        try:
            want = environment().from_string(template).render(**VARIABLES)
        except Exception:
            want = None
        out.append({"template": template, "want": want})
    with open(os.path.join(HERE, "snippets.json"), "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False, indent=1)
        f.write("\n")
