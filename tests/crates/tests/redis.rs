//! The redis crate, against a server that the tests start: its commands, pipelines and parser, over a
//! Unix socket of pirn's.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use pirn::net::UnixStream;
use pirn::sync::Barrier;
use pirn::thread;
use redis::{Commands, ConnectionLike, RedisResult, Value};

/// A server of one test, which ends with this.
struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// `None` where there is no such program.
    fn start(test: &str) -> Option<Server> {
        let directory =
            std::env::temp_dir().join(format!("pirn-redis-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // No port, and nothing is kept.
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "socket"])
            .arg("--dir")
            .arg(&directory)
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match child {
            Ok(child) => Some(Server { child, directory }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Not by `eprintln`, which the test harness would keep to itself.
                let _ = writeln!(io::stderr(), "{test}: SKIPPED: there is no redis-server here");
                let _ = std::fs::remove_dir_all(&directory);
                None
            }
            Err(error) => panic!("redis-server: {error}"),
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("socket")
    }

    /// Runs a fiber, as soon as somebody can connect.
    fn serve(mut self, main: impl FnOnce(PathBuf)) {
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert_eq!(self.child.try_wait().unwrap(), None, "redis-server has ended");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        pirn::run(|| main(self.socket()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What the redis crate wants of a connection, over a socket of pirn's.
struct Connection {
    stream: UnixStream,
    parser: redis::Parser,
}

impl Connection {
    fn open(path: PathBuf) -> Connection {
        Connection { stream: UnixStream::connect(path).unwrap(), parser: redis::Parser::new() }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.stream.write_all(command)?;
        self.parser.parse_value(&self.stream)
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.stream.write_all(commands)?;
        for _ in 0..offset {
            self.parser.parse_value(&self.stream)?;
        }
        (0..count).map(|_| self.parser.parse_value(&self.stream)).collect()
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        redis::cmd("PING").query::<String>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        true
    }
}

#[test]
fn commands_and_pipelines_of_the_redis_crate_work_in_a_fiber() {
    let Some(server) = Server::start("commands") else { return };
    server.serve(|path| {
        let mut connection = Connection::open(path);
        assert!(connection.check_connection());
        let long = "x".repeat(300_000);
        let () = connection.set("warp", &long).unwrap();
        assert_eq!(connection.get::<_, String>("warp").unwrap(), long);
        let (first, second): (i32, i32) = redis::pipe()
            .atomic()
            .incr("count", 40)
            .incr("count", 2)
            .query(&mut connection)
            .unwrap();
        assert_eq!((first, second), (40, 42));
        let error = connection.lpush::<_, _, i32>("warp", 1).unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"));
        assert_eq!(connection.get::<_, i32>("count").unwrap(), 42);
    });
}

#[test]
fn many_fibers_use_a_connection_each_at_the_same_time() {
    const FIBERS: usize = 50;
    let Some(server) = Server::start("many") else { return };
    server.serve(|path| {
        let barrier = Arc::new(Barrier::new(FIBERS));
        let fibers: Vec<_> = (0..FIBERS)
            .map(|_| {
                let (path, barrier) = (path.clone(), barrier.clone());
                thread::spawn(move || {
                    let mut connection = Connection::open(path);
                    for _ in 0..20 {
                        let _: i32 = connection.incr("count", 1).unwrap();
                        barrier.wait();
                    }
                })
            })
            .collect();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        assert_eq!(Connection::open(path).get::<_, usize>("count").unwrap(), FIBERS * 20);
    });
}

#[test]
fn a_command_that_waits_at_the_server_holds_up_its_own_fiber_only() {
    let Some(server) = Server::start("waits") else { return };
    server.serve(|path| {
        let taker = thread::spawn({
            let path = path.clone();
            // Without a limit: if nobody else could run, it would never end.
            move || Connection::open(path).blpop::<_, (String, String)>("queue", 0.0).unwrap()
        });
        let mut connection = Connection::open(path);
        let waits = |list: &str| list.lines().any(|client| client.contains("cmd=blpop"));
        while !waits(&redis::cmd("CLIENT").arg("LIST").query::<String>(&mut connection).unwrap()) {}
        let _: i32 = connection.lpush("queue", "weft").unwrap();
        assert_eq!(taker.join().unwrap(), ("queue".to_owned(), "weft".to_owned()));
    });
}
