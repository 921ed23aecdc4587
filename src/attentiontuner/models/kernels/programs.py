"""GPU kernels, in Triton. `fused` and `images` say what each is for and are the only files that launch them.

Legend: M rows of C columns, each row contiguous; N packed tokens of B episodes, n of the longest, h the size of a head.
Sums over rows are written as one partial sum a program, so that they come out the same every time.
"""

import triton
import triton.language as tl

# --- a layer's sums and norms ----------------------------------------------------------------------------------------


@triton.jit
def _mixed(x):
    """A number of 32 bits, each of which depends on all bits of x."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(seed, place, dropout):
    """Which places are not dropped: a function of the seed and the place."""
    number = _mixed(_mixed(place.to(tl.uint32)) ^ tl.load(seed).to(tl.uint32))
    return (number >> 8).to(tl.float32) * (1.0 / (1 << 24)) >= dropout


@triton.jit
def _norm(values, inside, column, gamma, beta, C, eps):
    """The layer norm of rows of C values, their mean, and 1 / their deviation."""
    values = tl.where(inside, values, 0.0)
    centre = tl.sum(values, 1, keep_dims=True) / C
    away = tl.where(inside, values - centre, 0.0)
    inverse = 1 / tl.sqrt(tl.sum(away * away, 1, keep_dims=True) / C + eps)
    scaled = away * inverse * tl.load(gamma + column, column < C, 0.0).to(tl.float32)
    return scaled + tl.load(beta + column, column < C, 0.0).to(tl.float32), centre, inverse


@triton.jit
def _norm_gradient(up, normal, inverse, weight, inside, C):
    """dL/dvalues of a norm from dL/dnorm and (values - mean) / deviation."""
    up *= weight
    along = tl.sum(up * normal, 1, keep_dims=True) / C
    return tl.where(inside, (up - tl.sum(up, 1, keep_dims=True) / C - normal * along) * inverse, 0.0)


@triton.jit
def add_norm_forward(
    update, bias, residual, gamma, beta, seed,  # [M, C], [C], [M, C], [C], [C], [1]
    summed, normal, mean, scale,  # [M, C], [M, C], [M], [M]
    M, C, eps, dropout,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """summed = residual + dropout(update + bias), and its layer norm."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < M) & (column < C)
    place = row.to(tl.int64) * C + column
    added = tl.load(update + place, inside, 0.0).to(tl.float32)
    added += tl.load(bias + column, column < C, 0.0).to(tl.float32)
    if DROPS:
        added = tl.where(_kept(seed, place, dropout), added / (1 - dropout), 0.0)
    total = added + tl.load(residual + place, inside, 0.0).to(tl.float32)
    rounded = total.to(summed.dtype.element_ty)
    tl.store(summed + place, rounded, inside)
    scaled, centre, inverse = _norm(rounded.to(tl.float32), inside, column, gamma, beta, C, eps)
    tl.store(normal + place, scaled.to(normal.dtype.element_ty), inside)
    tl.store(mean + row, centre, row < M)
    tl.store(scale + row, inverse, row < M)


@triton.jit
def add_norm_backward(
    upstream, summed, mean, scale, gamma, seed,
    d_residual, d_update, partial,  # [M, C], [M, C], [programs, 3, C]: of gamma, beta and bias
    M, C, dropout,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """The gradients of `add_norm_forward`; where nothing is dropped, that of the update is that of the residual."""
    column = tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(gamma + column, column < C, 0.0).to(tl.float32)
    of_gamma = tl.zeros([ROWS, COLUMNS], tl.float32)
    of_beta = tl.zeros([ROWS, COLUMNS], tl.float32)
    of_bias = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < C)
        place = row.to(tl.int64) * C + column
        centre, inverse = tl.load(mean + row, row < M, 0.0), tl.load(scale + row, row < M, 0.0)
        normal = tl.where(inside, (tl.load(summed + place, inside, 0.0).to(tl.float32) - centre) * inverse, 0.0)
        up = tl.load(upstream + place, inside, 0.0).to(tl.float32)
        of_gamma += up * normal
        of_beta += up
        down = _norm_gradient(up, normal, inverse, weight, inside, C)
        tl.store(d_residual + place, down.to(d_residual.dtype.element_ty), inside)
        if DROPS:
            down = tl.where(_kept(seed, place, dropout), down / (1 - dropout), 0.0)
            tl.store(d_update + place, down.to(d_update.dtype.element_ty), inside)
        of_bias += down
    out = partial + tl.program_id(0) * 3 * C + tl.arange(0, COLUMNS)
    there = tl.arange(0, COLUMNS) < C
    tl.store(out, tl.sum(of_gamma, 0), there)
    tl.store(out + C, tl.sum(of_beta, 0), there)
    tl.store(out + 2 * C, tl.sum(of_bias, 0), there)


@triton.jit
def embed_norm_forward(
    seen, done, time, gamma, beta, seed,  # [M / 2, C], [M / 2, C], [M / 2], [C], [C], [1]
    summed, normal, mean, scale,  # [M, C], [M, C], [M], [M]
    M, C, eps, dropout,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Observations (even rows) and actions (odd rows) with `fused.sinusoids`, their layer norm, then dropout."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :]
    inside = (row < M) & (column < C)
    step = row // 2
    own = step.to(tl.int64) * C + column
    total = tl.load(seen + own, inside & (row % 2 == 0), 0.0).to(tl.float32)
    total += tl.load(done + own, inside & (row % 2 == 1), 0.0).to(tl.float32)
    pair = (column // 2 * 2).to(tl.float32)
    angle = tl.load(time + step, row < M, 0).to(tl.float32) * tl.exp(pair * (-9.210340371976184 / C))  # log 10,000
    total += tl.where(column % 2 == 0, tl.sin(angle), tl.cos(angle))
    place = row.to(tl.int64) * C + column
    rounded = total.to(summed.dtype.element_ty)
    tl.store(summed + place, rounded, inside)
    scaled, centre, inverse = _norm(rounded.to(tl.float32), inside, column, gamma, beta, C, eps)
    if DROPS:
        scaled = tl.where(_kept(seed, place, dropout), scaled / (1 - dropout), 0.0)
    tl.store(normal + place, scaled.to(normal.dtype.element_ty), inside)
    tl.store(mean + row, centre, row < M)
    tl.store(scale + row, inverse, row < M)


@triton.jit
def embed_norm_backward(
    upstream, summed, mean, scale, gamma, seed,
    d_seen, d_done, partial,  # [M / 2, C], [M / 2, C], [programs, 2, C]: of gamma and beta
    M, C, dropout,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """The gradients of `embed_norm_forward`."""
    column = tl.arange(0, COLUMNS)[None, :]
    weight = tl.load(gamma + column, column < C, 0.0).to(tl.float32)
    of_gamma = tl.zeros([ROWS, COLUMNS], tl.float32)
    of_beta = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < C)
        place = row.to(tl.int64) * C + column
        centre, inverse = tl.load(mean + row, row < M, 0.0), tl.load(scale + row, row < M, 0.0)
        normal = tl.where(inside, (tl.load(summed + place, inside, 0.0).to(tl.float32) - centre) * inverse, 0.0)
        up = tl.load(upstream + place, inside, 0.0).to(tl.float32)
        if DROPS:
            up = tl.where(_kept(seed, place, dropout), up / (1 - dropout), 0.0)
        of_gamma += up * normal
        of_beta += up
        down = _norm_gradient(up, normal, inverse, weight, inside, C).to(d_seen.dtype.element_ty)
        own = (row // 2).to(tl.int64) * C + column
        tl.store(d_seen + own, down, inside & (row % 2 == 0))
        tl.store(d_done + own, down, inside & (row % 2 == 1))
    out = partial + tl.program_id(0) * 2 * C + tl.arange(0, COLUMNS)
    there = tl.arange(0, COLUMNS) < C
    tl.store(out, tl.sum(of_gamma, 0), there)
    tl.store(out + C, tl.sum(of_beta, 0), there)


# --- biases and rectifiers -------------------------------------------------------------------------------------------


@triton.jit
def bias_relu(values, bias, M, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """values = max(values + bias, 0), in place."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < M) & (column < C)
    place = row.to(tl.int64) * C + column
    value = tl.load(values + place, inside, 0.0).to(tl.float32)
    value += tl.load(bias + column, column < C, 0.0).to(tl.float32)
    tl.store(values + place, tl.where(value < 0, 0.0, value).to(values.dtype.element_ty), inside)  # NaN stays NaN


@triton.jit
def bias_gradient(
    upstream, result, down, partial,  # [M, C], [M, C], [M, C], [programs, C]
    M, C,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, RECTIFIED: tl.constexpr,
):  # fmt: skip
    """Sums over the rows; with `RECTIFIED` of what passes where `result` is not 0, which is written as well."""
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = (row < M) & (column < C)
        place = row.to(tl.int64) * C + column
        up = tl.load(upstream + place, inside, 0.0)
        if RECTIFIED:
            up = tl.where(tl.load(result + place, inside, 0.0) <= 0, 0.0, up)
            tl.store(down + place, up.to(down.dtype.element_ty), inside)
        total += up.to(tl.float32)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(partial + tl.program_id(0) * C + column, tl.sum(total, 0), column < C)


@triton.jit
def totals(partial, total, M, C, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The sums over the rows of `partial` `[M, C]`."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    added = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, M, ROWS):
        row = first + tl.arange(0, ROWS)[:, None]
        added += tl.load(partial + row * C + column[None, :], (row < M) & (column[None, :] < C), 0.0)
    tl.store(total + column, tl.sum(added, 0).to(total.dtype.element_ty), column < C)


# --- images ----------------------------------------------------------------------------------------------------------


@triton.jit
def image_blocks(
    images, blocks,  # bytes [U, WIDTH, HEIGHT, COLOURS]; [U, WIDTH / BLOCK, HEIGHT / BLOCK, BLOCK, BLOCK, COLOURS]
    WIDTH: tl.constexpr, HEIGHT: tl.constexpr, COLOURS: tl.constexpr, BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Pixels in [0, 1], those of a block side by side."""
    place = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    colour, rest = place % COLOURS, place // COLOURS
    down, rest = rest % BLOCK, rest // BLOCK
    across, rest = rest % BLOCK, rest // BLOCK
    high, wide = rest % (HEIGHT // BLOCK), rest // (HEIGHT // BLOCK)
    pixel = (wide * BLOCK + across) * HEIGHT + high * BLOCK + down
    inside = wide < WIDTH // BLOCK
    image = tl.program_id(0).to(tl.int64)
    value = tl.load(images + image * (WIDTH * HEIGHT * COLOURS) + pixel * COLOURS + colour, inside, 0).to(tl.float32)
    size = (WIDTH // BLOCK) * (HEIGHT // BLOCK) * BLOCK * BLOCK * COLOURS
    tl.store(blocks + image * size + place, (value / 255).to(blocks.dtype.element_ty), inside)


# --- the memory loss of one head -------------------------------------------------------------------------------------
#
# A row of attention weights is A = e / t with e = exp(s - largest s) and t = Σ e. `others` is t without the largest, so
# 1 - A of the largest is others / t, with all its digits. Which key has the largest score is found once (the first of
# equal ones): scores computed again may differ in their last digit, and taken for one of the others it would have a
# gradient of 1 / (1 - A).


@triton.jit
def _scores(query, key, i, j, length, scale):
    """Scaled scores of tokens i `[R, 1]` against keys j `[1, K]`, -inf for the future."""
    return tl.where((j <= i) & (j < length), tl.dot(query, tl.trans(key)) * scale, -float("inf"))


@triton.jit
def memory_rows(
    query, key, bounds, expert, annotated,  # rows of h, `stride` apart; [B + 2]; bool [B, n, n]; bool [B]
    loss, largest, others, pull, wrong, top,  # [N] each
    n, h, stride, scale, floor,
    BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Equation 4's sum over each row, and what its gradient needs: the largest score and the key it belongs to (`top`),
    `others`, Σ A · dL/dA without a largest weight that should be none, and whether there is one (`wrong`)."""
    episode = tl.program_id(1)
    start = tl.load(bounds + episode)
    length = tl.load(bounds + episode + 1) - start
    if (tl.program_id(0) * BLOCK < length) & (tl.load(annotated + episode) != 0):
        first = tl.program_id(0) * BLOCK
        i, feature = first + tl.arange(0, BLOCK)[:, None], tl.arange(0, SIZE)[None, :]
        asked = tl.load(query + (start + i).to(tl.int64) * stride + feature, (i < length) & (feature < h), 0.0)
        peak = tl.full([BLOCK, 1], -float("inf"), tl.float32)
        at = tl.zeros([BLOCK, 1], tl.int32)
        for past in range(0, first + BLOCK, BLOCK):
            j = past + tl.arange(0, BLOCK)[:, None]
            keys = tl.load(key + (start + j).to(tl.int64) * stride + feature, (j < length) & (feature < h), 0.0)
            j = past + tl.arange(0, BLOCK)[None, :]
            s = _scores(asked, keys, i, j, length, scale)
            highest = tl.max(s, 1, keep_dims=True)
            at = tl.where(highest > peak, tl.min(tl.where(s == highest, j, past + BLOCK), 1, keep_dims=True), at)
            peak = tl.maximum(peak, highest)
        rest = tl.zeros([BLOCK, 1], tl.float32)
        for past in range(0, first + BLOCK, BLOCK):
            j = past + tl.arange(0, BLOCK)[:, None]
            keys = tl.load(key + (start + j).to(tl.int64) * stride + feature, (j < length) & (feature < h), 0.0)
            j = past + tl.arange(0, BLOCK)[None, :]
            s = _scores(asked, keys, i, j, length, scale)
            rest += tl.sum(tl.where(j == at, 0.0, tl.exp(s - peak)), 1, keep_dims=True)
        total = rest + 1
        row_loss = tl.zeros([BLOCK, 1], tl.float32)
        row_pull = tl.zeros([BLOCK, 1], tl.float32)
        row_wrong = tl.zeros([BLOCK, 1], tl.float32)
        log_total, log_rest = tl.log(total), tl.maximum(tl.log(rest) - tl.log(total), floor)
        for past in range(0, first + BLOCK, BLOCK):
            j = past + tl.arange(0, BLOCK)[:, None]
            keys = tl.load(key + (start + j).to(tl.int64) * stride + feature, (j < length) & (feature < h), 0.0)
            j = past + tl.arange(0, BLOCK)[None, :]
            s = _scores(asked, keys, i, j, length, scale)
            seen = (j <= i) & (j < length) & (i < length)
            one = tl.load(expert + (episode.to(tl.int64) * n + i) * n + j, seen, 0) != 0
            e = tl.where(j == at, 0.0, tl.exp(s - peak))
            log_none = tl.where(j == at, log_rest, tl.log((total - e) / total))
            entry = tl.where(one, s - peak - log_total, log_none)
            row_loss -= tl.sum(tl.where(seen, entry, 0.0), 1, keep_dims=True)
            row_pull += tl.sum(tl.where(seen, tl.where(one, -1.0, e / (total - e)), 0.0), 1, keep_dims=True)
            row_wrong += tl.sum(tl.where(seen & (j == at) & (one == 0), 1.0, 0.0), 1, keep_dims=True)
        there = i < length
        tl.store(loss + start + i, row_loss, there)
        tl.store(largest + start + i, peak, there)
        tl.store(others + start + i, rest, there)
        tl.store(pull + start + i, row_pull, there)
        tl.store(wrong + start + i, tl.where(log_rest > floor, row_wrong, 0.0), there)
        tl.store(top + start + i, at, there)


@triton.jit
def _score_gradient(s, is_top, seen, one, peak, rest, pull, wrong):
    """dL/ds of entries `[R, K]` from what `memory_rows` found of their rows `[R, 1]`."""
    total = rest + 1
    e = tl.exp(s - peak)
    small = tl.where(is_top, 0.0, e / (total - tl.where(is_top, 0.0, e)))
    gradient = tl.where(one, -1.0, small) - e / total * pull
    # A largest weight that should be none: it draws the others up by their share, and is drawn down itself.
    divisor = tl.where(rest > 0, rest * total, 1.0)
    gradient += tl.where(wrong > 0, tl.where(is_top, rest, -e) / divisor, 0.0)
    return tl.where(seen, gradient, 0.0)


@triton.jit
def memory_query_gradient(
    query, key, bounds, expert, annotated, upstream, largest, others, pull, wrong, top,
    d_query,  # rows of h, `stride` apart
    n, h, stride, scale,
    BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """The gradient of the sum of `memory_rows` times `upstream` `[1]`, for the queries."""
    episode = tl.program_id(1)
    start = tl.load(bounds + episode)
    length = tl.load(bounds + episode + 1) - start
    if (tl.program_id(0) * BLOCK < length) & (tl.load(annotated + episode) != 0):
        first = tl.program_id(0) * BLOCK
        i, feature = first + tl.arange(0, BLOCK)[:, None], tl.arange(0, SIZE)[None, :]
        there = i < length
        asked = tl.load(query + (start + i).to(tl.int64) * stride + feature, there & (feature < h), 0.0)
        peak, rest = tl.load(largest + start + i, there, 0.0), tl.load(others + start + i, there, 0.0)
        drawn, bad = tl.load(pull + start + i, there, 0.0), tl.load(wrong + start + i, there, 0.0)
        at = tl.load(top + start + i, there, 0)
        gradient = tl.zeros([BLOCK, SIZE], tl.float32)
        for past in range(0, first + BLOCK, BLOCK):
            j = past + tl.arange(0, BLOCK)[:, None]
            keys = tl.load(key + (start + j).to(tl.int64) * stride + feature, (j < length) & (feature < h), 0.0)
            j = past + tl.arange(0, BLOCK)[None, :]
            s = _scores(asked, keys, i, j, length, scale)
            seen = (j <= i) & (j < length) & there
            one = tl.load(expert + (episode.to(tl.int64) * n + i) * n + j, seen, 0) != 0
            down = _score_gradient(s, j == at, seen, one, peak, rest, drawn, bad)
            gradient += tl.dot(down.to(keys.dtype), keys)
        gradient *= scale * tl.load(upstream)
        out = d_query + (start + i).to(tl.int64) * stride + feature
        tl.store(out, gradient.to(d_query.dtype.element_ty), there & (feature < h))


@triton.jit
def memory_key_gradient(
    query, key, bounds, expert, annotated, upstream, largest, others, pull, wrong, top,
    d_key,  # rows of h, `stride` apart
    n, h, stride, scale,
    BLOCK: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """The same for the keys."""
    episode = tl.program_id(1)
    start = tl.load(bounds + episode)
    length = tl.load(bounds + episode + 1) - start
    if (tl.program_id(0) * BLOCK < length) & (tl.load(annotated + episode) != 0):
        first = tl.program_id(0) * BLOCK
        mine, feature = first + tl.arange(0, BLOCK)[:, None], tl.arange(0, SIZE)[None, :]
        j = first + tl.arange(0, BLOCK)[None, :]
        keys = tl.load(key + (start + mine).to(tl.int64) * stride + feature, (mine < length) & (feature < h), 0.0)
        gradient = tl.zeros([BLOCK, SIZE], tl.float32)
        for later in range(first, length, BLOCK):
            i = later + tl.arange(0, BLOCK)[:, None]
            there = i < length
            asked = tl.load(query + (start + i).to(tl.int64) * stride + feature, there & (feature < h), 0.0)
            peak, rest = tl.load(largest + start + i, there, 0.0), tl.load(others + start + i, there, 0.0)
            drawn, bad = tl.load(pull + start + i, there, 0.0), tl.load(wrong + start + i, there, 0.0)
            at = tl.load(top + start + i, there, 0)
            s = _scores(asked, keys, i, j, length, scale)
            seen = (j <= i) & (j < length) & there
            one = tl.load(expert + (episode.to(tl.int64) * n + i) * n + j, seen, 0) != 0
            down = _score_gradient(s, j == at, seen, one, peak, rest, drawn, bad)
            gradient += tl.dot(tl.trans(down).to(asked.dtype), asked)
        gradient *= scale * tl.load(upstream)
        out = d_key + (start + mine).to(tl.int64) * stride + feature
        tl.store(out, gradient.to(d_key.dtype.element_ty), (mine < length) & (feature < h))
