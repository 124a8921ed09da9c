//! When fibers with sockets get their turns.

mod sockets;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;

use pirn::thread;
use sockets::tcp_pair;

#[test]
fn requests_are_answered_in_the_order_in_which_they_came_however_many_there_are() {
    const CLIENTS: usize = 100;
    const ROUNDS: usize = 5;
    pirn::run(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let (client, mut server) = tcp_pair();
            let order = order.clone();
            clients.push(client);
            // More than one call for a request, none of which waits but the first.
            thread::spawn_local(move || {
                let mut byte = [0];
                while server.read(&mut byte).unwrap() > 0 {
                    server.write_all(&byte).unwrap();
                    server.write_all(&byte).unwrap();
                    order.borrow_mut().push(number);
                }
            });
        }
        for round in 0..=ROUNDS {
            clients.iter_mut().for_each(|client| client.write_all(b"w").unwrap());
            clients.iter_mut().for_each(|client| client.read_exact(&mut [0; 2]).unwrap());
            let order = order.take();
            // In the first round the kernel also tells of each socket that one can write to it.
            assert!(round == 0 || order.iter().copied().eq(0..CLIENTS), "{order:?}");
        }
    });
}

#[test]
fn a_fiber_whose_socket_is_always_ready_gives_way_all_the_same() {
    pirn::run(|| {
        let (mut client, mut server) = tcp_pair();
        let left = 1000;
        client.write_all(&[7; 1000]).unwrap();
        // On this carrier, whose turns are counted.
        let reader = thread::spawn_local(move || {
            for _ in 0..left {
                server.read_exact(&mut [0]).unwrap();
            }
        });
        let mut turns = 0;
        while !reader.is_finished() {
            thread::yield_now();
            turns += 1;
        }
        assert!((left / 20..=left).contains(&turns), "{turns} turns while it read");
        reader.join().unwrap();
    });
}
