//! Waiting for several things at once.

use super::queue::{self, Node, Queue, Wait};
use crate::vm::heap::Tracer;
use crate::vm::native::Word;

/// The nodes of a wait for several things; they stay where they are.
#[derive(Debug)]
pub(crate) struct Arms {
    nodes: Box<[Node]>,
}

impl Arms {
    /// Queues a node of a wait in each of these queues, with what it would hand over there.
    ///
    /// # Safety
    ///
    /// The wait stays where it is until it has ended.
    pub(super) unsafe fn begin(wait: *mut Wait, arms: &[(Queue, Word, bool)]) -> Box<Arms> {
        let mut nodes: Box<[Node]> = arms.iter().map(|_| Node::new()).collect();
        for (i, (node, &(queue, value, reference))) in nodes.iter_mut().zip(arms).enumerate() {
            // SAFETY: the caller's promise; the nodes are in a box that the wait owns.
            unsafe {
                queue::belong(node, wait, i as u32, value, reference);
                queue.push(node);
            }
        }
        Box::new(Arms { nodes })
    }

    /// Takes all nodes out.
    ///
    /// # Safety
    ///
    /// Their queues are alive.
    pub(super) unsafe fn leave(&mut self) {
        for node in &mut self.nodes {
            // SAFETY: the caller's promise.
            unsafe { queue::unlink(node) };
        }
    }

    pub(super) fn trace(&self, tracer: &mut Tracer<'_>) {
        self.nodes.iter().for_each(|node| node.trace(tracer));
    }
}
