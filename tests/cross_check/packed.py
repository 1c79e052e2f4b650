"""Writers of quantized checkpoints, from the published layouts, and the weights that they stand for.

Each takes {name: f32 weight [rows, cols]} of the linears and a NumPy generator, and gives (tensors, decoded weights,
quantization_config). The decoded weights are computed here from what was stored, in float64.
"""
import json
import math

import ml_dtypes
import numpy as np

F8 = ml_dtypes.float8_e4m3fn
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                0.7229568362236023, 1.0], np.float32)
FP4 = np.array([0, 0.005208333333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25], np.float32)
FP4 = np.concatenate([FP4, -FP4])
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])


def grouped(w, group):
    return w.reshape(w.shape[0], -1, group)


def affine_codes(w, bits, group, symmetric, scale_type=np.float16):
    """codes [rows, cols], scales and zeros [rows, groups]."""
    g = grouped(w, group)
    top = 2 ** bits - 1
    if symmetric:
        scale = (2 * np.abs(g).max(-1) / top).astype(scale_type)
        zero = np.full(scale.shape, 2 ** (bits - 1))
    else:
        low, high = np.minimum(g.min(-1), 0), np.maximum(g.max(-1), 0)
        scale = ((high - low) / top).astype(scale_type)
        zero = np.clip(np.round(-low / scale.astype(np.float32)), 0, top).astype(int)
    s = scale.astype(np.float64)[..., None]
    codes = np.clip(np.round(g / s) + zero[..., None], 0, top).astype(np.int64)
    decoded = (s * (codes - zero[..., None])).reshape(w.shape)
    return codes.reshape(w.shape), scale, zero, decoded


def bit_stream(codes, bits):
    """[n, m] codes, packed along the first axis into int32 words, lowest bits first."""
    n, m = codes.shape
    planes = ((codes[:, None, :] >> np.arange(bits)[None, :, None]) & 1).reshape(n * bits, m)
    words = (planes.reshape(-1, 32, m).astype(np.uint64) << np.arange(32, dtype=np.uint64)[None, :, None]).sum(1)
    return words.astype(np.uint32).view(np.int32)


def gptq(weights, rng, bits=4, group=32, symmetric=True, act_order=False, g_idx=True, v2=False):
    tensors, decoded = {}, {}
    group_of = None
    for name, w in weights.items():
        rows, cols = w.shape
        size = cols if group == -1 else group
        perm = rng.permutation(cols) if act_order else np.arange(cols)  # quantized in this order
        codes, scale, zero, d = affine_codes(w[:, perm], bits, size, symmetric)
        inverse = np.argsort(perm)
        decoded[name], codes = d[:, inverse], codes[:, inverse]
        group_of = (inverse // size).astype(np.int32)
        if not v2:  # the first format cannot say a zero of 0
            zero = np.maximum(zero, 1)
            decoded[name] = scale.astype(np.float64)[:, group_of] * (codes - zero[:, group_of])
        tensors[name + ".qweight"] = bit_stream(codes.T, bits)
        stored = zero if v2 else zero - 1
        tensors[name + ".qzeros"] = np.ascontiguousarray(bit_stream(stored, bits).T)
        tensors[name + ".scales"] = np.ascontiguousarray(scale.T)
        if g_idx:
            tensors[name + ".g_idx"] = group_of
        tensors[name + ".bias"] = np.zeros(rows, np.float16)
    return tensors, decoded, dict(quant_method="gptq", bits=bits, group_size=group, desc_act=act_order, sym=symmetric,
                                  checkpoint_format="gptq_v2" if v2 else "gptq")


def awq(weights, rng, group=64):
    tensors, decoded = {}, {}

    def pack(codes):  # [n, rows] -> [n, rows / 8]
        eight = codes.reshape(codes.shape[0], -1, 8).astype(np.uint32)
        return sum(eight[:, :, AWQ_ORDER[i]] << np.uint32(4 * i) for i in range(8)).astype(np.uint32).view(np.int32)

    for name, w in weights.items():
        codes, scale, zero, decoded[name] = affine_codes(w, 4, group, False)
        tensors[name + ".qweight"] = pack(codes.T)
        tensors[name + ".qzeros"] = pack(zero.T)
        tensors[name + ".scales"] = np.ascontiguousarray(scale.T)
    return tensors, decoded, dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm")


def bitsandbytes4(weights, rng, kind="nf4", nested=True, block=64):
    levels = NF4 if kind == "nf4" else FP4
    tensors, decoded = {}, {}
    for name, w in weights.items():
        flat = w.reshape(-1, block)
        absmax = np.abs(flat).max(-1).astype(np.float32)
        state = dict(quant_type=kind, blocksize=block, dtype="bfloat16", shape=list(w.shape))
        if nested:
            table = np.sort(np.concatenate([np.linspace(-1, 1, 255), [0.5003]])).astype(np.float32)
            offset = np.float32(absmax.mean())
            pad = (-absmax.size) % 256
            blocks = np.pad(absmax - offset, (0, pad)).reshape(-1, 256)
            top = np.abs(blocks).max(-1).astype(np.float32)
            code = np.abs(blocks[..., None] / top[:, None, None] - table).argmin(-1).astype(np.uint8).reshape(-1)
            code = code[:absmax.size]
            absmax = table[code] * np.repeat(top, 256)[:absmax.size] + offset
            tensors[name + ".weight.absmax"] = code
            tensors[name + ".weight.nested_absmax"] = top
            tensors[name + ".weight.nested_quant_map"] = table
            state |= dict(nested_blocksize=256, nested_dtype="float32", nested_offset=float(offset))
        else:
            tensors[name + ".weight.absmax"] = absmax
        codes = np.abs(flat[..., None] / absmax[:, None, None] - levels).argmin(-1)
        decoded[name] = (levels.astype(np.float64)[codes] * absmax.astype(np.float64)[:, None]).reshape(w.shape)
        pairs = codes.reshape(-1, 2)
        tensors[name + ".weight"] = (pairs[:, :1] << 4 | pairs[:, 1:]).astype(np.uint8)
        tensors[name + ".weight.quant_map"] = levels
        tensors[name + f".weight.quant_state.bitsandbytes__{kind}"] = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return tensors, decoded, dict(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type=kind)


def int8(weights, rng):
    tensors, decoded = {}, {}
    for name, w in weights.items():
        scb = np.abs(w).max(1).astype(np.float32)
        q = np.round(w / scb[:, None] * 127).astype(np.int8)
        tensors[name + ".weight"], tensors[name + ".SCB"] = q, scb
        tensors[name + ".weight_format"] = np.array(0, np.uint8)
        decoded[name] = q.astype(np.float64) * scb.astype(np.float64)[:, None] / 127
    return tensors, decoded, dict(quant_method="bitsandbytes", load_in_8bit=True)


def fp8(weights, rng, block=None, by_row=False):
    tensors, decoded = {}, {}
    for name, w in weights.items():
        rows, cols = w.shape
        if block:
            br, bc = block
            pr, pc = math.ceil(rows / br), math.ceil(cols / bc)
            padded = np.pad(w, ((0, pr * br - rows), (0, pc * bc - cols)))
            scale = np.abs(padded.reshape(pr, br, pc, bc)).max((1, 3)).astype(np.float32) / 448
            wide = np.repeat(np.repeat(scale, br, 0), bc, 1)[:rows, :cols]
            tensors[name + ".weight_scale_inv"] = scale
        else:
            scale = (np.abs(w).max(1, keepdims=True) if by_row else np.abs(w).max()).astype(np.float32) / 448
            wide = np.broadcast_to(scale, w.shape)
            tensors[name + ".weight_scale"] = np.asarray(scale)
            tensors[name + ".input_scale"] = np.asarray(1.0, np.float32)
        q = (w / wide).astype(F8)
        tensors[name + ".weight"] = q
        decoded[name] = q.astype(np.float64) * wide
    config = dict(quant_method="fp8", weight_block_size=list(block)) if block else dict(
        quant_method="compressed-tensors", format="float-quantized")
    return tensors, decoded, config


def pack_quantized(weights, rng, bits=4, group=32, symmetric=True, act_order=False):
    tensors, decoded = {}, {}
    for name, w in weights.items():
        rows, cols = w.shape
        size = cols if group == -1 else group
        perm = rng.permutation(cols) if act_order else np.arange(cols)
        codes, scale, zero, d = affine_codes(w[:, perm], bits, size, symmetric, ml_dtypes.bfloat16)
        inverse = np.argsort(perm)
        decoded[name], codes = d[:, inverse], codes[:, inverse]
        tensors[name + ".weight_packed"] = np.ascontiguousarray(bit_stream(codes.T, bits).T)
        tensors[name + ".weight_scale"] = scale
        tensors[name + ".weight_shape"] = np.array([rows, cols], np.int64)
        if not symmetric:
            tensors[name + ".weight_zero_point"] = bit_stream(zero, bits)
        if act_order:
            tensors[name + ".weight_g_idx"] = (inverse // size).astype(np.int32)
    return tensors, decoded, dict(quant_method="compressed-tensors", format="pack-quantized")


def e2m1(g):
    return np.abs(g[..., None] - E2M1).argmin(-1)


def low_first(codes):
    return (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)


def nvfp4(weights, rng, modelopt=True):
    tensors, decoded = {}, {}
    for name, w in weights.items():
        g = grouped(w, 16)
        matrix_scale = np.float32(np.abs(w).max() / (6 * 448))
        scale = (np.abs(g).max(-1) / 6 / matrix_scale).astype(F8)
        s = scale.astype(np.float64) * float(matrix_scale)
        codes = e2m1(g / np.maximum(s, 1e-30)[..., None])
        if modelopt:
            tensors[name + ".weight_scale_2"] = np.asarray(matrix_scale)
            tensors[name + ".input_scale"] = np.asarray(1.0, np.float32)
        else:
            tensors[name + ".weight_global_scale"] = np.array([1 / matrix_scale], np.float32)
            s = scale.astype(np.float64) / float(np.float32(1 / matrix_scale))
        decoded[name] = (E2M1.astype(np.float64)[codes] * s[..., None]).reshape(w.shape)
        tensors[name + (".weight" if modelopt else ".weight_packed")] = low_first(codes.reshape(w.shape))
        tensors[name + ".weight_scale"] = scale
    return tensors, decoded, (dict(quant_method="modelopt", quant_algo="NVFP4") if modelopt else
                              dict(quant_method="compressed-tensors", format="nvfp4-pack-quantized"))


def mxfp4(weights, rng):
    tensors, decoded = {}, {}
    for name, w in weights.items():
        g = grouped(w, 32)
        exponent = np.floor(np.log2(np.abs(g).max(-1))).astype(int) - 2
        codes = e2m1(g / 2.0 ** exponent[..., None])
        decoded[name] = (E2M1.astype(np.float64)[codes] * 2.0 ** exponent[..., None]).reshape(w.shape)
        tensors[name + ".weight_packed"] = low_first(codes.reshape(w.shape))
        tensors[name + ".weight_scale"] = (exponent + 127).astype(np.uint8)
    return tensors, decoded, dict(quant_method="compressed-tensors", format="mxfp4-pack-quantized")
