/*
 * The stack switch for x86-64, System V ABI. Read this file first; aarch64.S explains only what differs.
 *
 * Three things live here:
 *
 *   pirn_ctx_switch       the readable reference: saves every callee-saved register, C-callable
 *   pirn_fiber_entry      first frame of a fiber: backtraces end here
 *   pirn_coroutine_entry  first frame of a coroutine: backtraces go on into the resumer
 *
 * The hot path is not here: it is the inline `asm!` in src/context/x86_64.rs, which saves four
 * words into a context record and jumps. Inlined, each switch has an indirect jump of its own to
 * predict, the compiler spills only what is live, and the return-address predictor sees no
 * unmatched call or return.
 *
 * What a stack looks like to pirn_ctx_switch (addresses grow upwards):
 *
 *        SUSPENDED                    RUNNING                    JUST CREATED
 *
 *     | caller's frame |          | caller's frame |          +----------------+ <- top, 16-aligned
 *     +----------------+          |      ...       |          | pirn_ctx_entry |    return address
 *     | return address |          | frame that is  |          +----------------+
 *     +----------------+          | running now    | <- rsp   | rbp = 0        |
 *     | rbp            |          +----------------+          | rbx = 0        |
 *     | rbx            |                                      | r12 = function |
 *     | r12            |          The saved rsp of a          | r13 = argument |
 *     | r13            |          running stack is            | r14 = 0        |
 *     | r14            |          stale: nobody reads         | r15 = 0        | <- sp
 *     | r15            | <- sp    it until the next           +----------------+
 *     +----------------+          switch writes it.
 *
 * and to the hot path, whose record (struct Context) lies in the control block above the frames:
 *
 *     +------------------------------+ <- stack top (a cache line; shifted per slot, see src/stack)
 *     | control block                |
 *     |   inner: sp, rbx, rbp, pc    |    SUSPENDED:     where to go on, and with which registers
 *     |                              |    RUNNING:       stale
 *     |                              |    JUST CREATED:  sp = &control block, rbx = &control block,
 *     |                              |                   rbp = the function to call,
 *     |                              |                   pc  = pirn_{fiber,coroutine}_entry
 *     |   outer: sp, rbx, rbp, pc    |    (coroutines)   the same for the resumer, while RUNNING
 *     +------------------------------+
 *     | address of entry's label 1   |    a return address that is never returned to, for unwinders
 *     +------------------------------+
 *     | first frame                  |
 *     ~ ...                          ~
 *
 * The x87 control word and MXCSR are callee-saved by the ABI as well. They are not saved here:
 * a new fiber starts with the default words, and src/context keeps them per fiber when asked to.
 * No shadow-stack (SHSTK) support is claimed: switching stacks under one needs more than this.
 * IBT landing pads (endbr64) are in place.
 */

        .intel_syntax noprefix
        .text

/*
 * void pirn_ctx_switch(void **from, void *const *to)
 *
 * Suspends the caller on the stack that it stands on, stores that stack's pointer in *from, and
 * goes on where *to was suspended. Every instruction has true unwind information: the stack that
 * rsp points to holds the same words at the same offsets before and after the exchange, so the
 * rules need no change in the middle: the backtrace flips at the one instruction that loads rsp.
 */
        .globl  pirn_ctx_switch
        .hidden pirn_ctx_switch
        .type   pirn_ctx_switch, @function
        .p2align 4
pirn_ctx_switch:
        .cfi_startproc
        endbr64
        push    rbp                     # save the callee-saved registers ...
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        push    rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        push    r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        push    r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r13, 0
        push    r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r14, 0
        push    r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r15, 0
        mov     [rdi], rsp              # ... and where they lie: this side is now suspended
        mov     rsp, [rsi]              # the exchange: from here on the other stack is the stack
        pop     r15                     # the mirror image, with the other side's values
        .cfi_adjust_cfa_offset -8
        .cfi_restore r15
        pop     r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore r14
        pop     r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore r13
        pop     r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        pop     rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        pop     rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        ret                             # to whoever called pirn_ctx_switch on this stack
        .cfi_endproc
        .size   pirn_ctx_switch, . - pirn_ctx_switch

/*
 * First frame under pirn_ctx_switch: calls r12(r13), which must not return.
 * "Undefined" for the return address is how unwind information says: the stack ends here.
 *
 * A new stack returns to its second instruction, since unwinders look up the byte before a return
 * address; a return needs no landing pad.
 */
        .globl  pirn_ctx_entry
        .hidden pirn_ctx_entry
        .type   pirn_ctx_entry, @function
        .p2align 4
pirn_ctx_entry:
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        mov     rdi, r13
        call    r12
        ud2                             # the function returned: there is nowhere to go
        .cfi_endproc
        .size   pirn_ctx_entry, . - pirn_ctx_entry

/*
 * First frame of a fiber. Entered by the hot path's jump, with
 *
 *      rsp = rbx = control block       (64-aligned, hence 16-aligned)
 *      rbp = extern "C" fn(control block, word, tag) -> !
 *      rdx, rcx = the word and the tag that every switch carries over
 *
 * The call is made by hand, push and jump: a `call` that never returns would leave the processor's
 * return predictor one entry off for the rest of the resumer's returns.
 */
        .globl  pirn_fiber_entry
        .hidden pirn_fiber_entry
        .type   pirn_fiber_entry, @function
        .p2align 4
pirn_fiber_entry:
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        ldmxcsr [rip + .Ldefault_mxcsr] # a new fiber starts with the default control words,
        fldcw   [rip + .Ldefault_x87cw] # whatever the one that started it was doing
        mov     rdi, rbx
        mov     rsi, rdx
        mov     rdx, rcx
        mov     rax, rbp
        xor     ebp, ebp                # the chain of frame pointers ends here too
        lea     rcx, [rip + 1f]
        push    rcx
        jmp     rax
1:      ud2
        .cfi_endproc
        .size   pirn_fiber_entry, . - pirn_fiber_entry

/*
 * First frame of a coroutine: the same, but the unwind rules lead on to the resumer, whose
 * registers lie in control block + 32 (`outer`: sp, rbx, rbp, pc) for as long as the coroutine runs.
 * rbx holds the control block throughout, and every callee restores it.
 *
 * rbp is set to the pair (rbp, pc) in `outer`, which is laid out as a frame record, so that
 * profilers that walk frame pointers find the resumer as well.
 *
 * The frame is marked as a signal frame: gdb accepts a caller at a lower address than its callee
 * only there. In exchange unwinders look up the exact return address instead of the byte before it;
 * hence the instruction at label 1.
 */
        .globl  pirn_coroutine_entry
        .hidden pirn_coroutine_entry
        .type   pirn_coroutine_entry, @function
        .p2align 4
pirn_coroutine_entry:
        .cfi_startproc
        .cfi_signal_frame
        /* CFA = outer.sp:  DW_CFA_def_cfa_expression { DW_OP_breg3(rbx) 32; DW_OP_deref } */
        .cfi_escape 0x0f, 3, 0x73, 32, 0x06
        /* rbx, rbp, rip at outer + 8, 16, 24:  DW_CFA_expression reg { DW_OP_breg3(rbx) n } */
        .cfi_escape 0x10, 3, 2, 0x73, 40
        .cfi_escape 0x10, 6, 2, 0x73, 48
        .cfi_escape 0x10, 16, 2, 0x73, 56
        endbr64
        ldmxcsr [rip + .Ldefault_mxcsr]
        fldcw   [rip + .Ldefault_x87cw]
        mov     rdi, rbx
        mov     rsi, rdx
        mov     rdx, rcx
        mov     rax, rbp
        lea     rbp, [rbx + 48]
        lea     rcx, [rip + 1f]
        push    rcx
        jmp     rax
1:      ud2
        .cfi_endproc
        .size   pirn_coroutine_entry, . - pirn_coroutine_entry

        .section .rodata
        .p2align 2
.Ldefault_mxcsr:
        .long   0x1f80                  # round to nearest, all exceptions masked, no flush to zero
.Ldefault_x87cw:
        .short  0x037f                  # 64-bit precision, round to nearest, all exceptions masked

/* Indirect branch targets carry landing pads: let the linker keep IBT if everybody else has them. */
        .section .note.gnu.property, "a"
        .p2align 3
        .long   4                       # size of the name "GNU"
        .long   16                      # size of the description
        .long   5                       # NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .long   0xc0000002              # GNU_PROPERTY_X86_FEATURE_1_AND
        .long   4
        .long   1                       # IBT
        .long   0                       # padding
        .section .note.GNU-stack, "", @progbits
