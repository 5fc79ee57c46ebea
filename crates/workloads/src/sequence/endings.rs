//! What names of sound files end in.

/// What they may end in, in small letters.
pub(crate) const SOUNDS: [&str; 5] = ["wav", "flac", "ogg", "oga", "mp3"];

/// Lists them for people.
pub(crate) fn endings() -> String {
    SOUNDS.map(|it| format!(".{it}")).join(", ")
}
