//! The font of the pictures: how wide its letters are.

use std::sync::LazyLock;

use ttf_parser::Face;

/// The family, with those that stand in for it where a picture is shown without it: they are no wider.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
/// Half of the height of a capital letter, in sizes of the type.
pub(super) const HALF_CAPITAL: f64 = 0.36;
/// Printable characters of ASCII, whose widths are looked up once.
const FIRST: char = ' ';
const N: usize = 95;

/// Returns the width of a text in sizes of its type.
pub(super) fn width(text: &str, is_bold: bool) -> f64 {
    static WIDTHS: LazyLock<[[f64; N]; 2]> = LazyLock::new(|| {
        let widths = |font: &[u8]| {
            let characters: [char; N] = std::array::from_fn(|it| char::from(u8::try_from(it + 32).unwrap_or(b' ')));
            characters.map(|it| advance(font, it))
        };
        [widths(dejavu::sans::regular()), widths(dejavu::sans::bold())]
    });
    let of_kind = &WIDTHS[usize::from(is_bold)];
    let of_other = |it| advance(if is_bold { dejavu::sans::bold() } else { dejavu::sans::regular() }, it);
    let at = |it: char| (it as usize).wrapping_sub(FIRST as usize);
    text.chars().map(|it| of_kind.get(at(it)).copied().unwrap_or_else(|| of_other(it))).sum()
}

/// Returns the width of a character in sizes of its type; one that the font lacks is as wide as its sign for that.
fn advance(font: &[u8], character: char) -> f64 {
    let Ok(font) = Face::parse(font, 0) else { return 1.0 };
    let width = font.glyph_hor_advance(font.glyph_index(character).unwrap_or_default());
    width.map_or(1.0, |it| f64::from(it) / f64::from(font.units_per_em()))
}
