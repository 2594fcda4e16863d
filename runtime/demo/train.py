#!/usr/bin/env python3
"""Trains the demo model on the rows that `go run ./runtime/demo/emit` wrote.

    train.py --corpus DIR --out DIR [--steps N] [--limit SECONDS]

The model is Qwen2's: RMSNorm, rotary positions on halves, grouped attention with biases on q, k and v, a gated
feed-forward, tied embeddings. The last part of the training runs on weights rounded as q4_K_M rounds them
(straight-through gradients), so that the quantized model answers as well as the trained one.

Writes model.safetensors (matrices f16, the rest f32, names as in GGUF), wrong.json (held-out questions that
were answered wrong) and log.txt to --out.
"""
import argparse
import json
import math
import os
import struct
import sys
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

EMBD, LAYERS, HEADS, KV_HEADS, HEAD, FFN = 256, 6, 4, 2, 64, 768
THETA, EPS = 10000.0, 1e-6
SEED = 1


def more_bits(layer):
    """The layers whose attn_v and ffn_down q4_K_M keeps in q6_K."""
    eighth = LAYERS // 8
    return layer < eighth or layer >= 7 * LAYERS // 8 or (layer - eighth) % 3 == 2


def half(x):
    return x.half().float()


def q4_k(w):
    """w as q4_K keeps it: 4 bits an element, 6 bits for scale and minimum of 32, f16 for those of 256."""
    x = w.reshape(-1, 8, 32)
    low = x.amin(2, keepdim=True).clamp(max=0)
    scale = (x.amax(2, keepdim=True) - low) / 15
    d = half(scale.amax(1, keepdim=True) / 63).clamp(min=1e-7)
    m = half((-low).amax(1, keepdim=True) / 63).clamp(min=1e-7)
    s = d * torch.round(scale / d).clamp(0, 63)
    b = m * torch.round(-low / m).clamp(0, 63)
    q = torch.round((x + b) / s.clamp(min=1e-9)).clamp(0, 15)
    return (s * q - b).reshape(w.shape)


def q6_k(w):
    """w as q6_K keeps it: 6 bits an element, 8 bits for the scale of 16, f16 for that of 256."""
    x = w.reshape(-1, 16, 16)
    scale = x.abs().amax(2, keepdim=True) / 32
    d = half(scale.amax(1, keepdim=True) / 127).clamp(min=1e-7)
    s = d * torch.round(scale / d).clamp(0, 127)
    q = torch.round(x / s.clamp(min=1e-9)).clamp(-32, 31)
    return (s * q).reshape(w.shape)


def through(round_to, w):
    """round_to(w), with the gradient of w."""
    return w + (round_to(w) - w).detach()


class Layer(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.attn_norm = nn.Parameter(torch.ones(EMBD))
        self.ffn_norm = nn.Parameter(torch.ones(EMBD))

        def matrix(out, inp, gain=1.0):
            return nn.Parameter(torch.randn(out, inp) * gain / math.sqrt(inp))

        residual = 1 / math.sqrt(2 * LAYERS)
        self.attn_q = matrix(HEADS * HEAD, EMBD)
        self.attn_k = matrix(KV_HEADS * HEAD, EMBD)
        self.attn_v = matrix(KV_HEADS * HEAD, EMBD)
        self.attn_output = matrix(EMBD, HEADS * HEAD, residual)
        self.ffn_gate = matrix(FFN, EMBD)
        self.ffn_up = matrix(FFN, EMBD)
        self.ffn_down = matrix(EMBD, FFN, residual)
        self.bias_q = nn.Parameter(torch.zeros(HEADS * HEAD))
        self.bias_k = nn.Parameter(torch.zeros(KV_HEADS * HEAD))
        self.bias_v = nn.Parameter(torch.zeros(KV_HEADS * HEAD))
        self.wide = q6_k if more_bits(index) else q4_k


def norm(x, weight):
    x32 = x.float()
    return (x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + EPS) * weight).to(x.dtype)


def rotate(x, cos, sin):  # x: [batch, head, time, HEAD]
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Model(nn.Module):
    def __init__(self, vocab, context):
        super().__init__()
        self.token_embd = nn.Parameter(torch.randn(vocab, EMBD) * 0.02)
        self.output_norm = nn.Parameter(torch.ones(EMBD))
        self.layers = nn.ModuleList(Layer(i) for i in range(LAYERS))
        freq = THETA ** (-torch.arange(0, HEAD, 2).float() / HEAD)
        angle = torch.arange(context).float()[:, None] * freq
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, ids, pos, mask, rounded):
        """Logits [batch, time, vocab] of ids at pos; mask [batch, 1, time, time], or None for plain causal."""
        def w(p, kind=q4_k):
            return through(kind, p) if rounded else p

        embd = w(self.token_embd, q6_k)
        x = F.embedding(ids, embd)
        batch, time_ = ids.shape
        cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]

        def heads(y, n):
            return y.view(batch, time_, n, HEAD).transpose(1, 2)

        for layer in self.layers:
            h = norm(x, layer.attn_norm)
            q = heads(F.linear(h, w(layer.attn_q), layer.bias_q), HEADS)
            k = heads(F.linear(h, w(layer.attn_k), layer.bias_k), KV_HEADS)
            v = heads(F.linear(h, w(layer.attn_v, layer.wide), layer.bias_v), KV_HEADS)
            q, k = rotate(q, cos, sin).to(v.dtype), rotate(k, cos, sin).to(v.dtype)
            k = k.repeat_interleave(HEADS // KV_HEADS, 1)
            v = v.repeat_interleave(HEADS // KV_HEADS, 1)
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
            o = o.transpose(1, 2).reshape(batch, time_, HEADS * HEAD)
            x = x + F.linear(o, w(layer.attn_output))
            h = norm(x, layer.ffn_norm)
            g = F.silu(F.linear(h, w(layer.ffn_gate))) * F.linear(h, w(layer.ffn_up))
            x = x + F.linear(g, w(layer.ffn_down, layer.wide))
        return F.linear(norm(x, self.output_norm), embd)


def unpack(rows):
    """Packed rows (see corpus.RowElems) -> ids, weights of each as a target, positions, attention mask."""
    x = rows.int() & 0xFFFF
    ids = (x & 0x3FFF).long()
    learnt, start = (x >> 15).bool(), (x >> 14 & 1).bool()
    time_ = ids.shape[1]
    at = torch.arange(time_, device=ids.device)
    pos = at - torch.cummax(torch.where(start, at, torch.zeros_like(at)), 1).values
    doc = start.int().cumsum(1)
    mask = (doc[:, None, :, None] == doc[:, None, None, :]) & (at[:, None] >= at[None, :])
    target = ids.roll(-1, 1)
    # The answers are what matters; the questions are learnt along a little, the first token of a document not at all.
    weight = torch.where(learnt, 1.0, 0.1).roll(-1, 1) * (~start).roll(-1, 1)
    weight[:, -1] = 0
    return ids, target, weight, pos, mask


def loss_of(model, rows, rounded):
    ids, target, weight, pos, mask = unpack(rows)
    logits = model(ids, pos, mask, rounded).float()
    each = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return (each * weight.flatten()).sum() / weight.sum()


@torch.no_grad()
def answer(model, questions, meta, device, rounded, most=72):
    """Greedy answers to the questions, all at once."""
    longest = max(len(q["Prompt"]) for q in questions)
    ids = torch.full((len(questions), longest + most), meta["pad"], dtype=torch.long)
    for i, q in enumerate(questions):
        ids[i, : len(q["Prompt"])] = torch.tensor(q["Prompt"])
    ids = ids.to(device)
    n = torch.tensor([len(q["Prompt"]) for q in questions], device=device)
    row = torch.arange(len(questions), device=device)
    done = torch.zeros(len(questions), dtype=torch.bool, device=device)
    out = [[] for _ in questions]
    for _ in range(most):
        width = int(n.max())
        pos = torch.arange(width, device=device).expand(len(questions), width)
        logits = model(ids[:, :width], pos, None, rounded)
        best = logits[row, n - 1].argmax(-1)
        for i, (t, d) in enumerate(zip(best.tolist(), done.tolist())):
            if not d:
                out[i].append(t)
        done = done | (best == meta["end"]) | (best == meta["pad"])
        if bool(done.all()):
            break
        ids[row, n] = torch.where(done, torch.full_like(best, meta["pad"]), best)
        n = torch.where(done, n, n + 1)
    return out


def evaluate(model, meta, device, rounded, say, path=None):
    questions = meta["held_out"]
    text = lambda ids: "".join(meta["tokens"][i] for i in ids)
    got = answer(model, questions, meta, device, rounded)
    wrong = [dict(kind=q["Kind"], novel=q["Novel"], question=q["Text"], want=q["Accept"][0], got=text(g))
             for q, g in zip(questions, got) if g != q["Answer"]]
    novel = sum(q["Novel"] for q in questions)
    missed = sum(x["novel"] for x in wrong)
    say(f"held out ({'q4_K_M' if rounded else 'f32'}): {len(questions) - len(wrong)} of {len(questions)} right; "
        f"whole phrasings {novel - missed} of {novel}")
    for x in wrong[:60]:
        say(f"  [{x['kind'][:24]}] {x['question']!r} -> {x['got']!r}, want {x['want']!r}")
    if path:
        with open(path, "w") as f:
            json.dump(wrong, f, indent=1)
    return len(wrong)


def save(model, path):
    tensors = {"token_embd.weight": model.token_embd, "output_norm.weight": model.output_norm}
    for i, layer in enumerate(model.layers):
        for name, p in layer.named_parameters():
            kind, _, of = name.partition("_")
            name = f"attn_{of}.bias" if kind == "bias" else f"{name}.weight"
            tensors[f"blk.{i}.{name}"] = p
    header, blobs, at = {}, [], 0
    for name, p in tensors.items():
        p = p.detach().float().cpu().numpy()
        kind, blob = ("F16", p.astype("<f2")) if p.ndim == 2 else ("F32", p.astype("<f4"))
        blob = blob.tobytes()
        header[name] = {"dtype": kind, "shape": list(p.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    header["__metadata__"] = {"heads": str(HEADS), "kv_heads": str(KV_HEADS), "theta": str(THETA), "eps": str(EPS), "layers": str(LAYERS)}
    head = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for blob in blobs:
            f.write(blob)


def main():
    arg = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arg.add_argument("--corpus", required=True)
    arg.add_argument("--out", required=True)
    arg.add_argument("--steps", type=int, default=14000)
    arg.add_argument("--batch", type=int, default=32, help="rows a step")
    arg.add_argument("--rate", type=float, default=2e-3)
    arg.add_argument("--rounding-from", type=float, default=0.65, help="share of the steps before the weights are rounded")
    arg.add_argument("--limit", type=float, default=0, help="seconds: fewer steps are run if --steps would take longer")
    arg.add_argument("--eager", action="store_true", help="do not compile")
    o = arg.parse_args()
    began = time.time()
    os.makedirs(o.out, exist_ok=True)
    log = open(os.path.join(o.out, "log.txt"), "w")

    def say(s):
        line = f"{time.time() - began:6.1f}s {s}"
        print(line, flush=True)
        log.write(line + "\n")
        log.flush()

    with open(os.path.join(o.corpus, "corpus.json")) as f:
        meta = json.load(f)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    rows = np.fromfile(os.path.join(o.corpus, "rows.u16"), dtype="<i2").reshape(-1, meta["row"])
    rows = torch.from_numpy(rows).to(device)
    order = torch.from_numpy(np.random.default_rng(SEED).permutation(len(rows))).to(device)
    model = Model(meta["vocab_size"], meta["row"]).to(device)
    count = sum(p.numel() for p in model.parameters())
    say(f"torch {torch.__version__} on {device}: {count / 1e6:.2f} M weights, {len(rows)} rows, {meta['stats']}")
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    fused = {"fused": True} if device == "cuda" else {}
    opt = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0}],
                            lr=o.rate, betas=(0.9, 0.98), eps=1e-9, **fused)
    step_loss = loss_of if o.eager else torch.compile(loss_of)
    steps, warm = o.steps, max(1, min(200, o.steps // 10))
    mark, mark_step, running = time.time(), 0, torch.zeros((), device=device)
    step = 0
    while step < steps:
        for group in opt.param_groups:
            fall = max(0.0, (step - warm) / max(1, steps - warm))
            group["lr"] = o.rate * (min(1, (step + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * fall))))
        at = torch.arange(step * o.batch, (step + 1) * o.batch, device=device) % len(rows)
        rounded = step >= o.rounding_from * steps
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = step_loss(model, rows[order[at]], rounded)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        running += loss.detach()
        step += 1
        if step == 50 and o.limit:  # the first steps compile
            torch.cuda.synchronize() if device == "cuda" else None
            mark, mark_step = time.time(), step
        if step == 150 and o.limit:
            torch.cuda.synchronize() if device == "cuda" else None
            each = (time.time() - mark) / (step - mark_step)
            fit = int((o.limit - (time.time() - began) - 45) / (each * 1.08))  # 45 s: compiling once more, and the questions
            say(f"{each * 1000:.1f} ms a step, {o.batch * meta['row'] / each / 1e6:.2f} M tokens/s; room for {fit} of {steps} steps")
            steps = min(steps, step + max(fit, 1))
        if step % 250 == 0 or step == steps:
            say(f"step {step} of {steps}: loss {running.item() / (250 if step % 250 == 0 else max(1, step % 250)):.4f}{' rounded' if rounded else ''}")
            running.zero_()
        if step == int(o.rounding_from * steps):
            save(model, os.path.join(o.out, "model.safetensors"))
            evaluate(model, meta, device, False, lambda s: say(s) if not s.startswith("  ") else None)
    save(model, os.path.join(o.out, "model.safetensors"))
    evaluate(model, meta, device, False, lambda s: say(s) if not s.startswith("  ") else None)
    evaluate(model, meta, device, True, say, os.path.join(o.out, "wrong.json"))


if __name__ == "__main__":
    sys.exit(main())
