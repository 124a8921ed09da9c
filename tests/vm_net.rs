//! Sockets of scripts inside a host's program.

use std::io::{Read, Write};
use std::net::{TcpListener as StdListener, TcpStream as StdStream};
use std::time::Duration;

use pirn::net::TcpListener;
use pirn::thread;
use pirn::vm::{Error, Vm, compile};

const PROGRAM: &str = r#"
import io;
import net;
import event;

string ask(string address, string question) {
    net.Socket socket = net.connect(address);
    socket.write(question + "\n");
    string answer = socket.readLine();
    socket.close();
    return answer;
}

void leave(string address) {
    net.connect(address).write("x");
}

int churn() {
    int total = 0;
    for (int i = 0; i < 100; i += 1) { List<int> garbage = [i]; total += garbage.length(); }
    return total;
}

class Shown {
    public string text;
    public string toString() { return text + net.connect(text).readLine(); }
}

string show(string address) {
    Object shown = new Shown{text: address};
    return "" + shown;
}

void forever(string address) {
    net.Socket socket = net.connect(address);
    try { socket.read(); } catch (Exception e) { io.print("caught"); }
}

class Counter {
    public int n;
    public void up() { n += 1; }
}

int ticks() {
    Counter counter = Counter();
    event.after(1, counter.up);
    event.run();
    return counter.n;
}
"#;

fn vm() -> Vm {
    Vm::new(&compile(PROGRAM).unwrap()).unwrap()
}

/// Answers each client with what it asks, turned to capitals.
fn shout(listener: &TcpListener, clients: usize) {
    for client in listener.incoming().take(clients) {
        let mut client = client.unwrap();
        let mut question = [0; 16];
        let count = client.read(&mut question).unwrap();
        client.write_all(question[..count].to_ascii_uppercase().as_slice()).unwrap();
    }
}

#[test]
fn a_script_and_a_fiber_talk_on_one_runtime() {
    pirn::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || shout(&listener, 1));
        let answer: String = vm().call("ask", (&*address, "who is there")).unwrap();
        assert_eq!(answer, "WHO IS THERE");
        server.join().unwrap();
    });
}

#[test]
fn tasks_of_a_host_wait_for_sockets_beside_one_another() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers = vm().with_tasks(|tasks| {
        let first = tasks.spawn::<String>("ask", (&*address, "first")).unwrap();
        let second = tasks.spawn::<String>("ask", (&*address, "second")).unwrap();
        let server = thread::spawn(move || {
            let clients = [listener.accept().unwrap().0, listener.accept().unwrap().0];
            // The later one gets its answer first.
            for mut client in clients.into_iter().rev() {
                let mut question = [0; 16];
                let count = client.read(&mut question).unwrap();
                client.write_all(&question[..count]).unwrap();
            }
        });
        let answers = [first.get().unwrap(), second.get().unwrap()];
        server.join().unwrap();
        answers
    });
    assert_eq!(answers.unwrap(), ["first", "second"]);
}

#[test]
fn a_script_without_a_runtime_gets_one_for_its_sockets() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        client.write_all(b"hello\n").unwrap();
    });
    let answer: String = vm().call("ask", (&*address, "?")).unwrap();
    assert_eq!(answer, "hello");
    server.join().unwrap();
}

#[test]
fn a_socket_may_be_waited_for_inside_a_string_conversion() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        listener.accept().unwrap().0.write_all(b" answers\n").unwrap();
    });
    let text: String = vm().call("show", (&*address,)).unwrap();
    assert_eq!(text, format!("{address} answers"));
    server.join().unwrap();
}

#[test]
fn a_socket_that_nobody_refers_to_is_closed_by_the_collector() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let program = compile(PROGRAM).unwrap();
    let mut vm = Vm::builder().gc_stress(true).load(&program).unwrap();
    vm.call::<()>("leave", (&*address,)).unwrap();
    let mut other: StdStream = listener.accept().unwrap().0;
    assert_eq!(vm.call::<i32>("churn", ()).unwrap(), 100);
    // What takes longer hangs: the other side is still open.
    other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).unwrap();
    assert_eq!(text, "x");
}

#[test]
fn a_stop_ends_a_script_that_waits_for_a_socket() {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut vm = vm();
    let handle = vm.stop_handle();
    let stopper = std::thread::spawn(move || {
        let client = listener.accept().unwrap();
        handle.stop();
        client
    });
    let error = vm.call::<()>("forever", (&*address,)).unwrap_err();
    assert!(matches!(error, Error::Stopped), "{error}");
    drop(stopper.join().unwrap());
    // The machine, its sockets and its loop can be used again.
    assert_eq!(vm.call::<i32>("ticks", ()).unwrap(), 1);
    assert_eq!(vm.call::<i32>("ticks", ()).unwrap(), 1);
}

#[test]
fn a_script_that_may_not_use_the_network_is_told_so() {
    let program = compile(PROGRAM).unwrap();
    let mut vm = Vm::builder().network(false).load(&program).unwrap();
    for address in ["localhost:80", "unix:/nowhere"] {
        let error = vm.call::<String>("ask", (address, "?")).unwrap_err().to_string();
        assert!(error.contains("does not let it use the network"), "{error}");
    }
}
