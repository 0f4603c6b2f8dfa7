//! A server of scripts: reads a request, plays writes and pauses, then keeps, closes or hangs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to the connection after the script.
#[derive(Clone, Copy, Debug)]
pub(super) enum After {
    /// It waits for the next request.
    Keep,
    /// It is closed.
    Close,
    /// It stays open, and nothing more is written.
    Hang,
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    Pause(Duration),
}

/// The answer to one request.
#[derive(Clone, Debug)]
pub(super) struct Script {
    steps: Vec<Step>,
    after: After,
}

impl Script {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), after: After::Keep }
    }

    pub(super) fn write(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.steps.push(Step::Write(bytes.as_ref().to_vec()));
        self
    }

    pub(super) fn pause(mut self, millis: u64) -> Self {
        self.steps.push(Step::Pause(Duration::from_millis(millis)));
        self
    }

    pub(super) fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// Pauses after the first write.
    pub(super) fn after_headers(mut self, millis: u64) -> Self {
        self.steps.insert(1, Step::Pause(Duration::from_millis(millis)));
        self
    }
}

/// Returns a response head with one or more further header lines.
pub(super) fn http(status: u16, headers: &str) -> String {
    let reason = if status == 200 { "OK" } else { "Odd" };
    format!("HTTP/1.1 {status} {reason}\r\n{headers}\r\n\r\n")
}

/// Returns one chunk of the chunked encoding.
pub(super) fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n", body.len())
}

/// Returns a 200 answer with an event stream in one chunk.
pub(super) fn stream(body: &str) -> Script {
    let head = http(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked");
    let chunk = if body.is_empty() { String::new() } else { chunked(body) };
    Script::new().write(head).write(format!("{chunk}0\r\n\r\n"))
}

#[derive(Debug, Default)]
struct Seen {
    requests: AtomicUsize,
    posts: AtomicUsize,
    last: Mutex<String>,
}

/// A running server. It ends with the test's process.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) url: String,
    seen: Arc<Seen>,
}

impl Server {
    /// Starts a server that answers the n-th request with the n-th script, the last one for all
    /// after it.
    pub(super) fn start(scripts: Vec<Script>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Seen::default());
        let server = Self { url, seen: Arc::clone(&seen) };
        let scripts = Arc::new(scripts);
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let (seen, scripts) = (Arc::clone(&seen), Arc::clone(&scripts));
                std::thread::spawn(move || serve(socket, &seen, &scripts));
            }
        });
        server
    }

    pub(super) fn posts(&self) -> usize {
        self.seen.posts.load(Ordering::SeqCst)
    }

    /// Waits until so many POSTs were read.
    pub(super) fn await_posts(&self, count: usize) {
        for _ in 0..6_000 {
            if self.posts() >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{} of {count} POSTs within a minute", self.posts());
    }

    pub(super) fn last_request(&self) -> String {
        self.seen.last.lock().expect("no panic").clone()
    }
}

/// Serves a connection; returns, and so closes it, at its end or when the peer is gone.
fn serve(mut socket: TcpStream, seen: &Seen, scripts: &[Script]) -> Option<()> {
    socket.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(socket.try_clone().ok()?);
    loop {
        let request = read_request(&mut reader)?;
        seen.posts.fetch_add(usize::from(request.starts_with("POST ")), Ordering::SeqCst);
        *seen.last.lock().ok()? = request;
        let number = seen.requests.fetch_add(1, Ordering::SeqCst);
        let script = scripts.get(number).or(scripts.last())?;
        for step in &script.steps {
            match step {
                Step::Write(bytes) => socket.write_all(bytes).ok()?,
                Step::Pause(time) => std::thread::sleep(*time),
            }
        }
        match script.after {
            After::Keep => {}
            After::Close => return None,
            After::Hang => drop(read_request(&mut reader)),
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    head.push_str(&String::from_utf8(body).ok()?);
    Some(head)
}
