//! An extent in a file: a number where it has one axis, and a list where it has several.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Extent;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Edge(u32),
    Edges(Extent),
}

/// Writes an extent.
///
/// # Errors
///
/// Those of the format.
pub fn serialize<S: Serializer>(extent: &Extent, serializer: S) -> Result<S::Ok, S::Error> {
    match extent.edges() {
        [edge] => Written::Edge(*edge),
        _ => Written::Edges(*extent),
    }
    .serialize(serializer)
}

/// Reads an extent.
///
/// # Errors
///
/// Those of the format, and for a list that is none.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Extent, D::Error> {
    Ok(match Written::deserialize(deserializer)? {
        Written::Edge(edge) => Extent::new(edge),
        Written::Edges(extent) => extent,
    })
}
