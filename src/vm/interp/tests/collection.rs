use super::*;

#[test]
fn what_frames_hold_survives_and_the_rest_is_freed() {
    let program = "
        class Node { Node next; int value; }
        native void test.collect()
        func Node build(int) 4
            null r1, Node
        top:
            new r2, Node
            set r2, 0, r1
            set r2, 1, r0
            move r1, r2
            loop.dec.ge.int.k r0, 0, top
            return r1
        func int sum(Node) 3
            int r1, 0
            jump.null r0, end
        top:
            get r2, r0, 1
            add.int r1, r1, r2
            get r0, r0, 0
            loop.notnull r0, top
        end:
            return r1
        func int run(int) 5
            move r3, r0
            call r3, build
            move r1, r3
            move r3, r0
            call r3, build
            call.native r4, test.collect
            move r3, r1
            call r3, sum
            return r3";
    let mut machine = machine(program);
    assert_eq!(int(&mut machine, "run", &[1000]), 500_500);
    machine.collect();
    assert!(machine.heap.stats().live < 64 << 10);
    let mut machine = stressed(program);
    assert_eq!(int(&mut machine, "run", &[100]), 5050);
}
