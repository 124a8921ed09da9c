//! rustls and httparse: HTTPS between fibers of one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use pirn::net::{SocketAddr, TcpListener, TcpStream};
use pirn::sync::Barrier;
use pirn::thread;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

const NAME: &str = "weave.test";

/// Both sides' configurations, with a certificate that was made just now.
fn configurations() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let server =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key);
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (Arc::new(server.unwrap()), Arc::new(client))
}

type ServerStream = StreamOwned<ServerConnection, TcpStream>;
type ClientStream = StreamOwned<ClientConnection, TcpStream>;

fn accept(listener: &TcpListener, config: &Arc<ServerConfig>) -> ServerStream {
    let (stream, _) = listener.accept().unwrap();
    StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream)
}

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> ClientStream {
    let name = ServerName::try_from(NAME).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), stream)
}

/// Reads on until the buffer holds a head, and takes it out. Returns the length of the body behind it.
fn read_head(from: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head) = request.parse(buffer).unwrap() {
            assert_eq!((request.method, request.path), (Some("POST"), Some("/echo")));
            let length = request.headers.iter().find(|header| header.name == "Content-Length");
            let length = str::from_utf8(length.unwrap().value).unwrap().parse().unwrap();
            buffer.drain(..head);
            return Ok(length);
        }
        let mut part = [0; 4096];
        match from.read(&mut part)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => buffer.extend_from_slice(&part[..read]),
        }
    }
}

/// Answers requests with their bodies, until the client says that there are no more.
fn serve(mut stream: ServerStream) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let length = match read_head(&mut stream, &mut buffer) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            length => length?,
        };
        let come = buffer.len();
        buffer.resize(length.max(come), 0);
        stream.read_exact(&mut buffer[come..])?;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?;
        stream.write_all(&buffer[..length])?;
        buffer.drain(..length);
    }
}

/// Posts a body, and returns the body of the answer.
fn post(stream: &mut ClientStream, body: &[u8]) -> Vec<u8> {
    write!(stream, "POST /echo HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
    stream.write_all(body).unwrap();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut answer = vec![0; head.len() + body.len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(head.as_bytes()));
    answer.split_off(head.len())
}

fn farewell(mut stream: ClientStream) {
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

#[test]
fn https_is_spoken_between_two_fibers_of_one_thread() {
    let (server, client) = configurations();
    pirn::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || serve(accept(&listener, &server)));
        let mut stream = connect(address, &client);
        for length in [0, 1, 1000, 16_384, 100_000] {
            let body: Vec<u8> = (0..length).map(|at| at as u8).collect();
            assert!(post(&mut stream, &body) == body, "{length}");
        }
        farewell(stream);
        serving.join().unwrap().unwrap();
    });
}

#[test]
fn sessions_go_on_side_by_side_on_one_carrier() {
    const SESSIONS: usize = 20;
    let (server, client) = configurations();
    pirn::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving: Vec<_> = (0..SESSIONS)
            .map(|_| {
                let (listener, server) = (listener.try_clone().unwrap(), server.clone());
                thread::spawn(move || serve(accept(&listener, &server)))
            })
            .collect();
        // Nobody gets further before all have been answered: one that held the carrier up would stop
        // them all.
        let barrier = Arc::new(Barrier::new(SESSIONS));
        let clients: Vec<_> = (0..SESSIONS)
            .map(|number| {
                let (barrier, client) = (barrier.clone(), client.clone());
                thread::spawn(move || {
                    let mut stream = connect(address, &client);
                    for round in 0..3 {
                        let body = vec![number as u8; 50_000 + round];
                        assert!(post(&mut stream, &body) == body);
                        barrier.wait();
                    }
                    farewell(stream);
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        serving.into_iter().for_each(|server| server.join().unwrap().unwrap());
    });
}

#[test]
fn a_name_that_the_certificate_has_not_is_refused() {
    let (server, client) = configurations();
    pirn::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || serve(accept(&listener, &server)));
        let stream = TcpStream::connect(address).unwrap();
        let name = ServerName::try_from("warp.test").unwrap();
        let mut stream =
            StreamOwned::new(ClientConnection::new(client.clone(), name).unwrap(), stream);
        let error = stream.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert_eq!(serving.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidData);
    });
}

#[test]
fn a_time_limit_of_the_socket_ends_a_read_of_the_session_which_can_go_on() {
    let (server, client) = configurations();
    let runtime = pirn::Builder::new().virtual_time(true).build().unwrap();
    let limited = move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || serve(accept(&listener, &server)));
        let mut stream = connect(address, &client);
        assert_eq!(post(&mut stream, b"warp"), b"warp");
        stream.sock.set_read_timeout(Some(Duration::from_secs(3600))).unwrap();
        // The server has nothing to say.
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.sock.set_read_timeout(None).unwrap();
        assert_eq!(post(&mut stream, b"weft"), b"weft");
        farewell(stream);
        serving.join().unwrap().unwrap();
    };
    runtime.run(limited).unwrap();
}

#[test]
fn a_fiber_that_is_cancelled_in_a_session_unwinds_through_it() {
    let (server, client) = configurations();
    pirn::run(move || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || serve(accept(&listener, &server)));
        let mut stream = connect(address, &client);
        assert_eq!(post(&mut stream, b"warp"), b"warp");
        // It waits for the next request.
        serving.cancel();
        assert!(serving.join().is_err());
        // The socket has gone with it, without the farewell of a session.
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    });
}
