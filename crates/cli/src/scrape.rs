//! What Prometheus scrapes while a run goes on.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_monitor::Exposition;
use plimsoll_types::Event;

use crate::exit::{UserError, user_error};

/// How long a request may take to arrive, and an answer to be taken: one that is slower keeps others waiting.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes of a request that are read; a scrape has some hundred.
const LONGEST: usize = 8 << 10;
/// Waiting after the system could not accept, so that a lack of descriptors does not keep a core busy.
const PAUSE: Duration = Duration::from_millis(100);

/// An address that is this process's own.
pub(crate) struct Endpoint(TcpListener);

/// What is shown of a run, to whoever asks for it.
#[derive(Clone, Default)]
pub(crate) struct Scraped(Arc<Mutex<Exposition>>);

impl Endpoint {
    /// Takes an address.
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, UserError> {
        let listener = TcpListener::bind(address).map_err(|error| {
            let helps = match error.kind() {
                ErrorKind::AddrInUse => "; another process has it, choose another port",
                ErrorKind::AddrNotAvailable => "; it is no address of this machine, 127.0.0.1 always is",
                ErrorKind::PermissionDenied => "; ports from 1024 on need no permission",
                _ => "",
            };
            user_error(format!("serve metrics at {address} (`--metrics-addr`): {error}{helps}"))
        })?;
        Ok(Self(listener))
    }

    /// Answers on a thread of its own from now on, as long as the process lives, and says where.
    pub(crate) fn serve(self) -> Result<Scraped, UserError> {
        let scraped = Scraped::default();
        let (shown, own) = (self.0.local_addr(), scraped.clone());
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(move || own.answer_all(&self.0));
        let address = thread.and(shown).map_err(|error| user_error(format!("serve metrics: {error}")))?;
        eprintln!("metrics     http://{address}/metrics");
        Ok(scraped)
    }
}

impl Scraped {
    /// Hears what the run does.
    pub(crate) fn hear(&self, event: &Event) {
        self.lock().hear(event);
    }

    fn lock(&self) -> MutexGuard<'_, Exposition> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_all(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            match stream {
                // Whoever asks and goes away is nobody's concern.
                Ok(stream) => drop(self.answer(stream)),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        let answer = match read_head(&mut stream) {
            Ok(head) => self.to(&head),
            Err(error) if error.kind() == ErrorKind::InvalidData => refusal("431 Request Header Fields Too Large", ""),
            Err(error) => return Err(error),
        };
        stream.write_all(answer.as_bytes())
    }

    /// Returns the answer to a request.
    fn to(&self, head: &str) -> String {
        let mut words = head.lines().next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let path = target.map(|it| it.split('?').next().unwrap_or_default());
        match (method, path) {
            _ if !version.is_some_and(|it| it.starts_with("HTTP/1.")) => refusal("400 Bad Request", ""),
            (Some(method @ ("GET" | "HEAD")), Some("/metrics")) => {
                // The step waits for a copy at most, and not for the text.
                let exposition = self.lock().clone();
                page("200 OK", "version=0.0.4; ", &exposition.to_text(), method == "HEAD")
            }
            (Some("GET" | "HEAD"), _) => refusal("404 Not Found", ""),
            _ => refusal("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
        }
    }
}

/// Reads a request up to the empty line, whatever follows it.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let (begun, mut head, mut block) = (Instant::now(), Vec::new(), [0; 1024]);
    loop {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let n = stream.read(&mut block)?;
        head.extend_from_slice(&block[..n]);
        if head.windows(4).any(|it| it == b"\r\n\r\n") {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
        if n == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if LONGEST < head.len() {
            return Err(ErrorKind::InvalidData.into());
        }
    }
}

fn refusal(status: &str, header: &str) -> String {
    let text = format!("{status}: GET /metrics has what there is\n");
    page(status, "", &text, false).replacen("\r\n", &format!("\r\n{header}"), 1)
}

fn page(status: &str, version: &str, text: &str, is_head: bool) -> String {
    let (length, body) = (text.len(), if is_head { "" } else { text });
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; {version}charset=utf-8\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> SocketAddr {
        let endpoint = Endpoint::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = endpoint.0.local_addr().unwrap();
        endpoint.serve().unwrap();
        address
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // Who is refused early may not take all of a request.
        drop(stream.write_all(request));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn a_scrape_has_the_text_format_and_its_length() {
        let answer = ask(served(), b"GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4;"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(body.contains("# TYPE plimsoll_steps_total counter\n"), "{body}");
    }

    #[test]
    fn what_is_no_scrape_is_refused_and_the_next_one_answered() {
        let address = served();
        for (request, status) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"metrics\r\n\r\n", "400"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (&[b'x'; 9 << 10], "431"),
        ] {
            let answer = ask(address, request);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
        }
        let head = ask(address, b"HEAD /metrics HTTP/1.0\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn whoever_says_nothing_keeps_others_waiting_for_a_while_only() {
        let address = served();
        let silent = TcpStream::connect(address).unwrap();
        let begun = Instant::now();
        let answer = ask(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(begun.elapsed() < 3 * PATIENCE);
        drop(silent);
    }

    #[test]
    fn an_address_that_is_taken_is_refused_by_its_name() {
        let address = served();
        let error = Endpoint::bind(address).err().unwrap().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("choose another port"), "{error}");
        let error = Endpoint::bind("203.0.113.7:9464".parse().unwrap()).err().unwrap().to_string();
        assert!(error.contains("203.0.113.7:9464"), "{error}");
    }
}
