//! Futures that need tokio's reactor, used from fibers, and pirn's sockets beside them.
//!
//!     cargo run --example tokio_bridge
//!
//! tokio's runtime has a thread of its own, whose reactor drives its sockets and timers wherever they
//! are polled. There are two ways to use those from a fiber:
//!
//! * tokio polls the future, and the fiber waits for the handle: `block_on(handle.spawn(future))`. The
//!   future must be `Send`.
//! * The fiber polls it, inside the runtime's context: [`in_context`]. Any future will do.

use std::future::{Future, poll_fn};
use std::io::{self, BufRead, BufReader, Write};
use std::pin::pin;
use std::time::Duration;

use pirn::net::{TcpListener, TcpStream};
use pirn::{block_on, thread};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufStream};
use tokio::runtime::Handle;

/// Polls a future in the context of a tokio runtime, which is left again after each poll: between two
/// of them other fibers run on this thread.
async fn in_context<F: Future>(tokio: &Handle, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let _context = tokio.enter();
        future.as_mut().poll(cx)
    })
    .await
}

/// A server that some library might have: answers each line in capitals.
async fn shout(listener: tokio::net::TcpListener) -> io::Result<()> {
    let (stream, _) = listener.accept().await?;
    let mut stream = BufStream::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        stream.write_all(line.to_uppercase().as_bytes()).await?;
        stream.flush().await?;
        line.clear();
    }
    Ok(())
}

/// A fiber with pirn's sockets talks to tokio's server.
fn ask_tokio(tokio: &Handle) -> io::Result<()> {
    let listener = block_on(in_context(tokio, tokio::net::TcpListener::bind("127.0.0.1:0")))?;
    let address = listener.local_addr()?;
    let server = tokio.spawn(shout(listener));
    let client = TcpStream::connect(address)?;
    let mut answers = BufReader::new(&client).lines();
    let mut got = Vec::new();
    for word in ["warp", "weft"] {
        writeln!(&client, "{word}")?;
        got.extend(answers.next().transpose()?);
    }
    drop(client);
    block_on(server).expect("the server does not panic")?;
    println!("tokio's server answered: {}", got.join(", "));
    Ok(())
}

/// A fiber uses tokio's sockets to talk to a server of fibers.
fn answer_tokio(tokio: &Handle) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept()?;
        client.write_all(b"warp\nweft\n")
    });
    let got = block_on(in_context(tokio, async {
        let stream = tokio::net::TcpStream::connect(address).await?;
        let mut lines = BufStream::new(stream).lines();
        let mut got = Vec::new();
        while let Some(line) = lines.next_line().await? {
            got.push(line);
        }
        io::Result::Ok(got)
    }))?;
    server.join().expect("the server does not panic")?;
    println!("tokio's client got: {}", got.join(", "));
    Ok(())
}

fn main() -> io::Result<()> {
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let handle = tokio.handle().clone();
    pirn::run(move || {
        ask_tokio(&handle)?;
        answer_tokio(&handle)?;
        // One of tokio's timers keeps the fiber that waits for it, and no other.
        let other = thread::spawn(|| ());
        while !other.is_finished() {
            block_on(in_context(&handle, async {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }));
        }
        println!("another fiber ran while one waited for a timer of tokio's");
        Ok(())
    })
}
