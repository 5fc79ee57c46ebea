//! The font of the pictures: how wide its letters are, and what draws them.

use std::sync::{Arc, LazyLock};

use resvg::usvg::fontdb::Database;
use skrifa::instance::{LocationRef, Size};
use skrifa::{FontRef, MetadataProvider};

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
    let Ok(font) = FontRef::new(font) else { return 1.0 };
    let glyph = font.charmap().map(character).unwrap_or_default();
    let width = font.glyph_metrics(Size::new(1.0), LocationRef::default()).advance_width(glyph);
    width.map_or(1.0, f64::from)
}

/// Returns the fonts that draw a picture, and no others.
pub(super) fn fonts() -> Arc<Database> {
    static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
            fonts.load_font_data(font.to_vec());
        }
        Arc::new(fonts)
    });
    FONTS.clone()
}
