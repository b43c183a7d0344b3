"""Training pictures of every format against Pillow: both as PNG that Pillow wrote, and as they are, give the same records."""

from peer import SOURCE, kinema, say

import pathlib
import struct

import numpy
from PIL import Image, ImageOps

HEIGHT, WIDTH = 48, 64
random = numpy.random.default_rng(0)
colours = numpy.kron(random.integers(0, 255, (6, 8, 3)), numpy.ones((8, 8, 1)))
rgb = Image.fromarray(numpy.clip(colours + random.integers(-20, 20, colours.shape), 0, 255).astype(numpy.uint8))
alpha = Image.fromarray(numpy.kron(random.choice([0, 40, 128, 200, 255], (6, 8)), numpy.ones((8, 8))).astype(numpy.uint8))
rgba = rgb.copy()
rgba.putalpha(alpha)
BLUE = (0x20, 0xC0, 0xFF)

read, white, blue = pathlib.Path("read"), pathlib.Path("white"), pathlib.Path("blue")
for folder in (read, white, blue):
    folder.mkdir()


def over(image, colour):
    below = Image.new("RGBA", image.size, (*colour, 255))
    return Image.alpha_composite(below, image.convert("RGBA")).convert("RGB")


def add(name, image, **options):
    """Saves the picture, and what Pillow reads of it over both backgrounds."""
    path = read / name
    image.save(path, **options)
    stored = ImageOps.exif_transpose(Image.open(path))
    for folder, colour in ((white, (255, 255, 255)), (blue, BLUE)):
        (over(stored, colour) if stored.mode != "CMYK" else stored.convert("RGB")).save(folder / f"{path.stem}.png")
    for folder in (read, white, blue):
        (folder / f"{path.stem}.txt").write_text(path.stem)


def turned(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


add("png_rgba.png", rgba)
add("png_grey_alpha.png", rgba.convert("LA"))
add("png_palette.png", rgb.quantize(32), transparency=bytes([0, 90] + [255] * 30))
add("webp_lossless.webp", rgba, lossless=True, exact=True)
add("webp_lossy.webp", rgba, quality=70)
add("jpeg.jfif", rgb, format="JPEG", quality=80)
add("jpeg_cmyk.jpe", rgb.convert("CMYK"), format="JPEG", quality=95)
for sampling in ("4:4:4", "4:2:2", "4:2:0"):
    add(f"avif_{sampling.replace(':', '')}.avif", rgb, quality=75, subsampling=sampling)
add("avif_alpha.avif", rgba, quality=75)
add("avif_grey.AVIF", rgb.convert("L"), format="AVIF")
for orientation in range(2, 9):
    upright = orientation < 5
    add(f"avif_turned_{orientation}.avif", rgb if upright else rgb.resize((HEIGHT, WIDTH)), exif=turned(orientation), quality=90)
    add(f"tiff_turned_{orientation}.tif", rgb if upright else rgb.resize((HEIGHT, WIDTH)), exif=turned(orientation))
for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
    add(f"tiff_{compression}.tiff", rgb, compression=compression)
add("tiff_alpha.tiff", rgba)
add("tiff_cmyk.tiff", rgb.convert("CMYK"))
add("tiff_palette.tiff", rgb.quantize(64))
add("tiff_grey.TIFF", rgb.convert("L"), format="TIFF")
add("tiff_bilevel.tiff", rgb.convert("1"), compression="group4")
add("tiff_jpeg.tiff", rgb, compression="jpeg", quality=90)


def records(folder, *words):
    out = folder.with_name(f"{folder.name}-{'-'.join(words)}".replace("#", ""))
    kinema("prepare", SOURCE / "configs/tiny.yml", "dataset_type=images", f"train_data_dir={folder}", f"tfrecords_dir={out}",
           "num_frames=1", f"height={HEIGHT}", f"width={WIDTH}", *words)
    found = []
    for shard in sorted(out.glob("*.tfrec")):
        data = shard.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            found.append(data[12:12 + length])
            data = data[16 + length:]
    return found


names = sorted(path.name for path in read.iterdir() if path.suffix != ".txt")
stems = sorted(path.stem for path in white.glob("*.png"))
assert [pathlib.Path(name).stem for name in names] == stems, "both folders list the pictures in one order"
for expected, word in ((white, "alpha_background=white"), (blue, "alpha_background=#20c0ff")):
    ours, theirs = records(read, word), records(expected, word)
    assert len(ours) == len(theirs) == len(names), f"{len(ours)} records of {len(names)} pictures"
    differing = [name for name, a, b in zip(names, ours, theirs) if a != b]
    assert not differing, f"{word}: other pixels than Pillow's in {differing}"
    say(f"{len(names)} pictures, {word}: the records that Pillow's pixels give")
