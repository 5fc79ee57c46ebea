//! A picture as a PNG, drawn from its SVG.

use std::sync::{Arc, LazyLock};

use resvg::render;
use resvg::tiny_skia::{Color, Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use super::font::FAMILY;

/// Draws an SVG document on white, and encodes it.
pub(super) fn png(svg: &str) -> Vec<u8> {
    let options = Options { fontdb: fonts(), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).expect("what the canvas writes is SVG");
    let size = tree.size().to_int_size();
    let mut pixels = Pixmap::new(size.width(), size.height()).expect("a picture has a size");
    pixels.fill(Color::WHITE);
    render(&tree, Transform::identity(), &mut pixels.as_mut());
    pixels.encode_png().expect("a picture is encoded in memory")
}

/// Returns the fonts that draw a picture, and no others.
fn fonts() -> Arc<Database> {
    static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        for font in [dejavu::sans::regular(), dejavu::sans::bold()] {
            fonts.load_font_data(font.to_vec());
        }
        Arc::new(fonts)
    });
    FONTS.clone()
}
