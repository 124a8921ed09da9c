/*
 * The stack switch for AArch64, AAPCS64. x86_64.S explains the design; here is what differs.
 *
 *   - Callee-saved are x19-x28, x29 (frame pointer), x30 (return address), sp and the low halves
 *     of v8-v15. The compiler keeps x19 and x29 to itself, so the hot path in
 *     src/context/aarch64.rs saves those two by hand; its record is sp, x19, x29, pc.
 *   - A call leaves the return address in x30 instead of pushing it.
 *   - FPCR is the control word; a new fiber starts with zero, the default.
 *   - Landing pads are `bti c` (called or reached by a plain `br` through x16/x17) and `bti j`
 *     (jumped to), spelled as hints so that every assembler takes them.
 *   - No pointer signing is claimed: saved return addresses are plain.
 *
 * What a stack looks like to pirn_ctx_switch:
 *
 *        SUSPENDED                    RUNNING                    JUST CREATED
 *
 *     | caller's frame |          | caller's frame |          | (top, 16-aligned)
 *     +----------------+          |      ...       |          +----------------+
 *     | d14  d15       | +144     | frame that is  |          | 0              |
 *     | d12  d13       | +128     | running now    | <- sp    | ...            |
 *     | d10  d11       | +112     +----------------+          |                |
 *     | d8   d9        | +96                                  |                |
 *     | x27  x28       | +80                                  |                |
 *     | x25  x26       | +64                                  |                |
 *     | x23  x24       | +48                                  |                |
 *     | x21  x22       | +32                                  |                |
 *     | x19  x20       | +16                                  | function, arg  | x19, x20
 *     | x29  x30       | +0 <- sp                             | 0, ctx_entry   | <- sp
 *     +----------------+                                      +----------------+
 *
 * The control block of the hot path is drawn in x86_64.S: read x19 for rbx and x29 for rbp.
 */

#define BTI_C   hint #34
#define BTI_J   hint #36
#define BTI_JC  hint #38

        .text

/* void pirn_ctx_switch(void **from, void *const *to) */
        .globl  pirn_ctx_switch
        .hidden pirn_ctx_switch
        .type   pirn_ctx_switch, %function
        .p2align 4
pirn_ctx_switch:
        .cfi_startproc
        BTI_C
        stp     x29, x30, [sp, #-160]!  // save the callee-saved registers ...
        .cfi_adjust_cfa_offset 160
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x19, x20, [sp, #16]
        .cfi_rel_offset x19, 16
        .cfi_rel_offset x20, 24
        stp     x21, x22, [sp, #32]
        .cfi_rel_offset x21, 32
        .cfi_rel_offset x22, 40
        stp     x23, x24, [sp, #48]
        .cfi_rel_offset x23, 48
        .cfi_rel_offset x24, 56
        stp     x25, x26, [sp, #64]
        .cfi_rel_offset x25, 64
        .cfi_rel_offset x26, 72
        stp     x27, x28, [sp, #80]
        .cfi_rel_offset x27, 80
        .cfi_rel_offset x28, 88
        stp     d8, d9, [sp, #96]
        .cfi_rel_offset d8, 96
        .cfi_rel_offset d9, 104
        stp     d10, d11, [sp, #112]
        .cfi_rel_offset d10, 112
        .cfi_rel_offset d11, 120
        stp     d12, d13, [sp, #128]
        .cfi_rel_offset d12, 128
        .cfi_rel_offset d13, 136
        stp     d14, d15, [sp, #144]
        .cfi_rel_offset d14, 144
        .cfi_rel_offset d15, 152
        mov     x9, sp
        str     x9, [x0]                // ... and where they lie: this side is now suspended
        ldr     x9, [x1]
        mov     sp, x9                  // the exchange
        ldp     d14, d15, [sp, #144]    // the mirror image, with the other side's values
        .cfi_restore d14
        .cfi_restore d15
        ldp     d12, d13, [sp, #128]
        .cfi_restore d12
        .cfi_restore d13
        ldp     d10, d11, [sp, #112]
        .cfi_restore d10
        .cfi_restore d11
        ldp     d8, d9, [sp, #96]
        .cfi_restore d8
        .cfi_restore d9
        ldp     x27, x28, [sp, #80]
        .cfi_restore x27
        .cfi_restore x28
        ldp     x25, x26, [sp, #64]
        .cfi_restore x25
        .cfi_restore x26
        ldp     x23, x24, [sp, #48]
        .cfi_restore x23
        .cfi_restore x24
        ldp     x21, x22, [sp, #32]
        .cfi_restore x21
        .cfi_restore x22
        ldp     x19, x20, [sp, #16]
        .cfi_restore x19
        .cfi_restore x20
        ldp     x29, x30, [sp], #160
        .cfi_adjust_cfa_offset -160
        .cfi_restore x29
        .cfi_restore x30
        ret                             // to whoever called pirn_ctx_switch on this stack
        .cfi_endproc
        .size   pirn_ctx_switch, . - pirn_ctx_switch

/*
 * First frame under pirn_ctx_switch: calls x19(x20), which must not return. A new stack returns to
 * its second instruction: see x86_64.S.
 */
        .globl  pirn_ctx_entry
        .hidden pirn_ctx_entry
        .type   pirn_ctx_entry, %function
        .p2align 4
pirn_ctx_entry:
        .cfi_startproc
        .cfi_undefined x30
        BTI_JC
        mov     x0, x20
        blr     x19
        brk     #1                      // the function returned: there is nowhere to go
        .cfi_endproc
        .size   pirn_ctx_entry, . - pirn_ctx_entry

/*
 * First frame of a fiber: sp = x19 = control block, x29 = function to call,
 * x2, x3 = the word and the tag.
 */
        .globl  pirn_fiber_entry
        .hidden pirn_fiber_entry
        .type   pirn_fiber_entry, %function
        .p2align 4
pirn_fiber_entry:
        .cfi_startproc
        .cfi_undefined x30
        BTI_J
        msr     fpcr, xzr               // the default control word
        mov     x0, x19
        mov     x1, x2
        mov     x2, x3
        mov     x16, x29                // a branch through x16 may land on `bti c`
        mov     x29, xzr                // the chain of frame pointers ends here
        adr     x30, 1f                 // a call made by hand: see x86_64.S
        br      x16
1:      brk     #1
        .cfi_endproc
        .size   pirn_fiber_entry, . - pirn_fiber_entry

/* First frame of a coroutine: the same, and unwinders go on into the resumer. */
        .globl  pirn_coroutine_entry
        .hidden pirn_coroutine_entry
        .type   pirn_coroutine_entry, %function
        .p2align 4
pirn_coroutine_entry:
        .cfi_startproc
        .cfi_signal_frame
        /* CFA = outer.sp:  DW_CFA_def_cfa_expression { DW_OP_breg19 32; DW_OP_deref } */
        .cfi_escape 0x0f, 3, 0x83, 32, 0x06
        /* x19, x29, return address at outer + 8, 16, 24:  DW_CFA_expression reg { DW_OP_breg19 n } */
        .cfi_escape 0x10, 19, 2, 0x83, 40
        .cfi_escape 0x10, 29, 2, 0x83, 48
        .cfi_escape 0x10, 30, 2, 0x83, 56
        BTI_J
        msr     fpcr, xzr
        mov     x0, x19
        mov     x1, x2
        mov     x2, x3
        mov     x16, x29
        add     x29, x19, #48           // the frame record (x29, pc) inside `outer`
        adr     x30, 1f
        br      x16
1:      brk     #1
        .cfi_endproc
        .size   pirn_coroutine_entry, . - pirn_coroutine_entry

/* Indirect branch targets carry landing pads: let the linker keep BTI if everybody else has them. */
        .section .note.gnu.property, "a"
        .p2align 3
        .word   4                       // size of the name "GNU"
        .word   16                      // size of the description
        .word   5                       // NT_GNU_PROPERTY_TYPE_0
        .asciz  "GNU"
        .word   0xc0000000              // GNU_PROPERTY_AARCH64_FEATURE_1_AND
        .word   4
        .word   1                       // BTI
        .word   0                       // padding
        .section .note.GNU-stack, "", %progbits
