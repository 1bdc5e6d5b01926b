// SPDX-License-Identifier: MIT
//! Whose accesses these are, and what they do.

use crate::numbered::numbered;

numbered! {
    /// Whose accesses are counted together.
    ///
    /// On a native system, what runs is counted as the guest's: it is the system under study in every environment.
    Layer {
        /// User code of the process that opened the region of interest; of any process while none is known.
        GuestUser: "guest_user",
        /// User code of other processes. A caller never needs it: the model tells by the process's name.
        GuestOther: "guest_other",
        /// The guest's kernel.
        GuestKernel: "guest_kernel",
        /// The hypervisor, with its own kernel and processes.
        Hypervisor: "hypervisor",
    }
}

numbered! {
    /// What an access does.
    Kind {
        /// Reads data.
        Load: "loads",
        /// Writes data.
        Store: "stores",
        /// Reads an instruction.
        Fetch: "fetches",
    }
}
