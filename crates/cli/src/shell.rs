//! Commands as they can be pasted into a shell.

use std::env;
use std::ffi::OsStr;

/// How the program was called, where that was not by its own name: `cargo xtask` sets it.
const CALLED_AS: &str = "PLIMSOLL_CALLED_AS";

/// Returns how the program was called.
pub(crate) fn program() -> String {
    let own = || env::args_os().next().map_or_else(|| "plimsoll".to_owned(), |it| quoted(&it));
    env::var(CALLED_AS).unwrap_or_else(|_| own())
}

/// Quotes a word for a shell, where it needs that.
pub(crate) fn quoted(word: &OsStr) -> String {
    let Some(text) = word.to_str() else {
        // Bash and zsh read bytes so.
        let bytes = word.as_encoded_bytes().iter();
        return bytes.fold("$'".to_owned(), |text, byte| format!("{text}\\x{byte:02x}")) + "'";
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_written_byte_by_byte() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(quoted(OsStr::from_bytes(b"a'\xff")), "$'\\x61\\x27\\xff'");
    }

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        for word in ["a b", "it's", "\"", "$HOME", "`ls`", "\\", "*", "a\nb", "", "é\u{301}", "!x", "#"] {
            let script = format!("printf %s {}", quoted(word.as_ref()));
            let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&read.stdout), word);
        }
    }
}
