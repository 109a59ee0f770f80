/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * What is refused to a guarded session whatever its policy says of files: processes that are
 * not its own, another identity, the kernel's own surface, sockets beside the gate. The
 * system-call filter and the namespaces of an enclosure refuse most of it before; here it is
 * refused where all ways meet. No mode lets it pass.
 */
#ifndef CLOISTER_GUARDS_H
#define CLOISTER_GUARDS_H

/* guard refuses, to the current task, if it is of a guarded session. */
static __always_inline int guard(__u8 op, __u8 why)
{
	__u64 id = whose();
	if (!id)
		return 0;
	if (policy_of(id) && !(mode_of(id) & GUARDED))
		return 0;
	tell(id, 0, op, 0, why, 0, 0);
	return -EACCES;
}

#define PTRACE_MODE_NOAUDIT 4 /* include/linux/ptrace.h */

/* own says whether a task is of the current task's session, or that has none. */
static __always_inline bool own(struct task_struct *task)
{
	__u64 id = whose();
	if (!id)
		return 1;
	__u64 *label = bpf_task_storage_get(&tasks, task, 0, 0);
	return label && *label == id;
}

/* Also of process_vm_readv, pidfd_getfd and the files below /proc/PID. */
SEC("lsm/ptrace_access_check")
int BPF_PROG(trace, struct task_struct *child, unsigned int mode)
{
	if (own(child))
		return 0;
	__u64 id = whose();
	if (mode & PTRACE_MODE_NOAUDIT) /* a look at /proc, which leaves out what it may not see */
		return !policy_of(id) || (mode_of(id) & GUARDED) ? -EACCES : 0;
	return guard(TRACE, FOREIGN);
}

SEC("lsm/ptrace_traceme")
int BPF_PROG(traced, struct task_struct *parent)
{
	return own(parent) ? 0 : guard(TRACE, FOREIGN);
}

SEC("lsm/task_kill")
int BPF_PROG(signal, struct task_struct *task, struct kernel_siginfo *info, int sig, const struct cred *cred)
{
	return own(task) ? 0 : guard(SIGNAL, FOREIGN);
}

/* What is not root does not become root; a root that becomes another may. */
SEC("lsm/task_fix_setuid")
int BPF_PROG(set_id, struct cred *new, const struct cred *old, int flags)
{
	if (!old->uid.val || !old->euid.val || !old->suid.val)
		return 0;
	if (new->uid.val && new->euid.val && new->suid.val)
		return 0;
	return guard(SET_ID, GAINS_ID);
}

/* A program whose file says as whom it runs. */
SEC("lsm/bprm_creds_from_file")
int BPF_PROG(set_id_program, struct linux_binprm *bprm, struct file *file)
{
	struct task_struct *task = bpf_get_current_task_btf();
	return bprm->cred->euid.val == task->cred->euid.val ? 0 : guard(SET_ID, GAINS_ID);
}

SEC("lsm/bpf")
int BPF_PROG(use_bpf, int cmd, union bpf_attr *attr, unsigned int size)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/kernel_module_request")
int BPF_PROG(ask_module, char *name)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/kernel_read_file")
int BPF_PROG(read_module, struct file *file, int kind, bool contents)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/kernel_load_data")
int BPF_PROG(load_module, int kind, bool contents)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/perf_event_open")
int BPF_PROG(open_perf)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/key_alloc")
int BPF_PROG(make_key, struct key *key, const struct cred *cred, unsigned long flags)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/syslog")
int BPF_PROG(read_log, int type)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/settime")
int BPF_PROG(set_time)
{
	return guard(SURFACE, CLOSED);
}

SEC("lsm/userns_create")
int BPF_PROG(make_users, const struct cred *cred)
{
	return guard(SURFACE, CLOSED);
}

/*
 * Files that io_uring opens are judged as all others. A guarded session has no rings all the
 * same: their workers act with other credentials than their own, and inner() relies on it that
 * nothing but the kernel's own work does.
 */
SEC("lsm/inode_init_security_anon")
int BPF_PROG(make_ring, struct inode *inode, const struct qstr *name, const struct inode *context)
{
	static const char ring[] = "[io_uring]";
	char is[sizeof(ring)];
	if (bpf_probe_read_kernel_str(is, sizeof(is), name->name) != sizeof(ring))
		return 0;
	for (int i = 0; i < sizeof(ring) - 1; i++) {
		if (is[i] != ring[i])
			return 0;
	}
	return guard(SURFACE, CLOSED);
}

/* Of the families that a gate takes, the kinds that it takes; routes are read by netlink. */
SEC("lsm/socket_create")
int BPF_PROG(make_socket, int family, int type, int protocol, int kern)
{
	if (kern || family == AF_UNIX || (family == AF_NETLINK && protocol == NETLINK_ROUTE))
		return 0;
	if (family == AF_INET || family == AF_INET6) {
		type &= SOCK_TYPE;
		if (type == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP))
			return 0;
		if (type == SOCK_DGRAM &&
		    (!protocol || protocol == IPPROTO_UDP || protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6))
			return 0;
	}
	return guard(SOCKET, BESIDE);
}

/* To connect to a socket that lies in a folder is to write to it: no other session's, and none of the host's. */
static __always_inline int reach(struct sock *other)
{
	if (!other)
		return 0;
	struct unix_sock *u = bpf_skc_to_unix_sock(other);
	if (!u)
		return 0;
	struct dentry *dentry = u->path.dentry;
	if (!dentry)
		return 0; /* without a name, or with one of a network namespace */
	return judge(dentry, CONNECT, WRITE);
}

SEC("lsm/unix_stream_connect")
int BPF_PROG(connect_stream, struct sock *sock, struct sock *other, struct sock *newsk)
{
	return reach(other);
}

SEC("lsm/unix_may_send")
int BPF_PROG(connect_datagrams, struct socket *sock, struct socket *other)
{
	return reach(other->sk);
}

#endif
