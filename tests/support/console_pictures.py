"""Pages compared with pictures of them, so that another look of a page is a decision.

The pages are stories of the lab on the simulator: the same in every run. Two browsers never draw
letters alike, and neither do two sets of fonts, so pixels are not compared. A picture is cut into
blocks of 20 × 20 pixels, and of a block only its mean colour counts: letters become a grey that
hardly depends on their shapes. A block is like the other picture if that has such a colour in the
same place or one block beside it, because a word that is wider moves what follows. Some blocks may
differ all the same. What is left to be found: colours, arrows, things that are gone, that stand
elsewhere, or on top of each other. What is smaller than a block (a hatch, a border) is asserted by
other tests.
"""

import base64
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import Page

from support.console_pages import open_page

PICTURES = Path(__file__).parents[1] / "console" / "browser" / "pictures"
DIFFERENCES = Path(__file__).parents[2] / "build" / "console-pictures"
WINDOW = None
PAGES = {
    "stories": ("/lab", WINDOW),
    "reconcile": ("/lab/reconcile?step=4", "section.card:has(.strips)"),
    "quorum": ("/lab/controller-failover?step=3", WINDOW),
}
"""Which page, and what of it: one element, or what the window shows."""
COLOURS = 128
THEMES = ("light", "dark")
SIZE = {"width": 1280, "height": 800}
TOLERANCE = 24
"""Of 255, in the worst of red, green and blue."""
ALLOWED = 0.004
"""Of all blocks. Other letters differ in 0.0004 of them, arrows that are gone in 0.014."""

COMPARE = """async ([before, now, tolerance]) => {
  const SIDE = 20;
  const pixels = async (data) => {
    const answer = await fetch(`data:image/png;base64,${data}`);
    const bitmap = await createImageBitmap(await answer.blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const brush = canvas.getContext("2d");
    brush.drawImage(bitmap, 0, 0);
    return { canvas, brush, width: bitmap.width, height: bitmap.height };
  };
  const blocks = ({ brush, width, height }) => {
    const { data } = brush.getImageData(0, 0, width, height);
    const rows = [];
    for (let y = 0; y + SIDE <= height; y += SIDE) {
      const row = [];
      for (let x = 0; x + SIDE <= width; x += SIDE) {
        const mean = [0, 0, 0];
        for (let i = 0; i < SIDE * SIDE; i += 1) {
          const at = 4 * ((y + Math.floor(i / SIDE)) * width + x + i % SIDE);
          for (let c = 0; c < 3; c += 1) mean[c] += data[at + c];
        }
        row.push(mean.map((sum) => sum / (SIDE * SIDE)));
      }
      rows.push(row);
    }
    return rows;
  };
  const far = (one, other) => Math.max(...one.map((part, c) => Math.abs(part - other[c])));
  const isLike = (colour, rows, x, y) => {
    for (let dy = -1; dy <= 1; dy += 1) for (let dx = -1; dx <= 1; dx += 1) {
      const other = rows[y + dy]?.[x + dx];
      if (other && far(colour, other) <= tolerance) return true;
    }
    return false;
  };
  const [old, fresh] = [await pixels(before), await pixels(now)];
  const [was, is] = [blocks(old), blocks(fresh)];
  const rows = Math.max(was.length, is.length);
  const columns = Math.max(was[0].length, is[0].length);
  let differing = 0;
  fresh.brush.fillStyle = "rgb(255 0 0 / 50%)";
  for (let y = 0; y < rows; y += 1) for (let x = 0; x < columns; x += 1) {
    const [before, now] = [was[y]?.[x], is[y]?.[x]];
    if (before && now && isLike(now, was, x, y) && isLike(before, is, x, y)) continue;
    differing += 1;
    fresh.brush.fillRect(x * SIDE, y * SIDE, SIDE, SIDE);
  }
  const blob = await fresh.canvas.convertToBlob();
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return { share: differing / (rows * columns), picture: btoa(text) };
}"""


class Difference(NamedTuple):
    share: float
    """Of all blocks."""
    picture: bytes
    """How the page looks now, with red on what differs."""

    @property
    def is_allowed(self) -> bool:
        return self.share <= ALLOWED


def picture_of(name: str, theme: str) -> Path:
    return PICTURES / f"{name}-{theme}.png"


def take(page: Page, url: str, name: str, theme: str) -> bytes:
    """How a page looks when nothing moves any more."""
    page.set_viewport_size(SIZE)  # type: ignore[arg-type]  # a dict with its two keys
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
    open_page(page, url + PAGES[name][0])
    return photograph(page, name)


def photograph(page: Page, name: str) -> bytes:
    page.evaluate("document.fonts.ready.then(() => {})")
    _, part = PAGES[name]
    shown = page if part is WINDOW else page.locator(part).first
    return shown.screenshot(animations="disabled", caret="hide")


def small(picture: bytes) -> bytes:
    """As it lies in the repository: a quarter of the bytes. Rare colours are kept as well as
    common ones, and no block's mean is another by more than 1."""
    whole = Image.open(BytesIO(picture)).convert("RGB")
    fewer = whole.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, 1, dither=Image.Dither.NONE)
    written = BytesIO()
    fewer.save(written, "PNG", optimize=True)
    return written.getvalue()


def compare(page: Page, before: bytes, now: bytes) -> Difference:
    """In a page of its own, because the policy of ours forbids what that needs."""
    coded = [base64.b64encode(each).decode() for each in (before, now)]
    other = page.context.new_page()
    found = other.evaluate(COMPARE, [*coded, TOLERANCE])
    other.close()
    return Difference(found["share"], base64.b64decode(found["picture"]))
