// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0
/*
 * The judge of files and programs in the kernel. docs/kernel-policy.md says what it
 * promises; kernel/lsm loads it.
 *
 * A session is a control group with what was ever in it. An object carries a label in its
 * inode. What a session may do with an object are the bits of the object's labels and of
 * all folders above it: permits OR-ed, forbids OR-ed, a forbid first. That is Cedar's
 * "resource in Dir", whatever name, mount or working folder led there.
 *
 * Every hook of a task without a session ends after one look at the task and one at each
 * level of control groups at which a session is.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

#define DEPTH 64	/* folders above an object; deeper is refused */
#define LEVELS 16	/* of control groups, at which sessions are found */
#define NAMES 768	/* bytes of an event's path */
#define NAME 256	/* bytes of one name, with its end */

#define WORDS 1024	/* bytes of a program's words */
#define WORD 200	/* bytes of one of them, with its end */

enum right {
	READ = 1,
	WRITE = 2, /* and everything else that changes the object or its place */
	EXEC = 4,
	CODE = 8,  /* to map it as code */
	LIST = 16, /* to open a folder */
};
#define ALL (READ | WRITE | EXEC | CODE | LIST)

/* Of the bits of one object alone. */
enum flag {
	HELD = 1,	 /* it is not renamed or removed: a rule lies below it */
	NO_FILELESS = 2, /* of label 0: what no path leads to is not executed */
	GUARDED = 4,	 /* of label 0: what guards.h refuses is refused */
	LETS = 8,	 /* of label 0: what is refused is reported, and let pass */
	RECORDS = 16,	 /* of label 0: what is permitted is reported too, once for each object */
};
#define SPOKEN 8 /* of label 0: the rights of which some rule speaks, from this bit of the flags on */

enum op {
	OPEN = 1, CREATE, REMOVE, LINK, RENAME, ATTRIBUTES, EXECUTE, MAP, RECEIVE, MOUNT,
	CONNECT, TRACE, SIGNAL, SET_ID, SURFACE, SOCKET, SCRIPT,
};

enum why {
	ALLOWED, FORBIDDEN, NOT_PERMITTED, TOO_DEEP, DETACHED, GAIN, HOLDS_RULE, NO_POLICY, FILELESS, NO_MOUNTS,
	FOREIGN, GAINS_ID, CLOSED, BESIDE,
};

struct bits {
	__u32 permit;
	__u32 forbid;
	__u32 flags;
};

struct session {
	__u64 dropped; /* events that found no room */
	__u64 denied;
	__u64 repeated; /* what was permitted and reported before */
	__u32 owner;	/* whose tasks alone come to be of it, and one more than the user's number; 0 for all */
	__u32 unused;
};

/* told is what was reported of an object, in which session. */
struct told {
	__u64 session;
	__u32 ops; /* as bits */
	__u32 unused;
};

struct event {
	__u64 when;  /* since boot, in nanoseconds */
	__u64 label; /* of the object that forbade it, the nearest; 0 */
	__u64 ino;
	__u32 dev;
	__u32 tgid;
	__u32 length; /* of names */
	__u8 op;
	__u8 need;
	__u8 why;
	__u8 below; /* how many names are below the object with the label */
	__u8 let;   /* it was let pass */
	__u8 folder;
	__u8 unused[6];
	__u8 comm[16];
	__u8 names[NAMES]; /* from the object upwards, each with a zero after it */
};

/* execution is the event of a program that is executed, with the words it was given. */
struct execution {
	struct event event;
	__u32 length; /* of words */
	__u32 count;  /* of them, also of those that had no room */
	__u8 words[WORDS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} labels SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct told);
} recorded SEC(".maps");

/* By the id of the control group, which is also the session's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct session);
} sessions SEC(".maps");

/* The levels of control groups at which sessions are, as bits. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} levels SEC(".maps");

/*
 * What each session's policy says of each label. A new policy is a new inner map: one
 * update swaps all of it, and returns when no program reads the old one any more.
 */
struct policy {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, struct bits);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__array(values, struct policy);
} policies SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 19);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__array(values, struct ring);
} rings SEC(".maps");

/* Types are written down, for the loader and bpf2go, only where something has them. */
const struct event *unused_event __attribute__((unused));
const struct execution *unused_execution __attribute__((unused));
const struct bits *unused_bits __attribute__((unused));

/* found is what a walk upwards found. */
struct found {
	__u32 permit;
	__u32 forbid;
	__u32 flags; /* of the object itself */
	__u32 mode;  /* the flags of label 0 */
	__u64 label; /* of the nearest that forbids what is needed */
	__u8 below;
	__u8 why; /* why the walk came to no end, or 0 */
	bool nowhere; /* no path leads to it */
};

/*
 * joins says whether a task comes to be of a session that a user made: what runs as another in the
 * user's groups, a program that is set-id above all, is not judged by the user's rules.
 */
static __always_inline bool joins(struct session *s, struct task_struct *task)
{
	const struct cred *as = task->cred;
	__u32 owner = s->owner - 1;
	return !s->owner || (as->uid.val == owner && as->euid.val == owner && as->suid.val == owner);
}

/* whose is the session of the current task, or 0. */
static __always_inline __u64 whose(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 *label = bpf_task_storage_get(&tasks, task, 0, 0);
	if (label)
		return *label;
	__u32 zero = 0;
	__u64 *at = bpf_map_lookup_elem(&levels, &zero);
	if (!at || !*at)
		return 0;
	__u64 mask = *at;
	for (int i = 0; i < LEVELS; i++) {
		if (!(mask & (1ull << i)))
			continue;
		__u64 id = bpf_get_current_ancestor_cgroup_id(i);
		struct session *s = id ? bpf_map_lookup_elem(&sessions, &id) : 0;
		if (!s || !joins(s, task))
			continue;
		/* It stays, wherever the task is moved. */
		bpf_task_storage_get(&tasks, task, &id, BPF_LOCAL_STORAGE_GET_F_CREATE);
		return id;
	}
	return 0;
}

static __always_inline struct bits *bits_of(void *policy, struct inode *inode, __u64 *label)
{
	__u64 *l = bpf_inode_storage_get(&labels, inode, 0, 0);
	if (!l)
		return 0;
	*label = *l;
	return bpf_map_lookup_elem(policy, label);
}

/*
 * inner says whether the kernel acts for itself in a task of a guarded session, as an overlay
 * does in its layers: with other credentials than the task's. The file that was asked for was
 * judged; a permit speaks of that one, a forbid of both.
 */
static __always_inline bool inner(__u32 mode)
{
	struct task_struct *task = bpf_get_current_task_btf();
	return (mode & GUARDED) && task->cred != task->real_cred;
}

static __always_inline void walk(void *policy, struct dentry *dentry, __u32 need, struct found *f)
{
	__u64 label = 0;
	struct bits *base = bpf_map_lookup_elem(policy, &label);
	__builtin_memset(f, 0, sizeof(*f));
	if (!base) {
		f->why = NO_POLICY;
		return;
	}
	f->mode = base->flags;
	/*
	 * Of what no rule speaks nothing below can change the answer: no walk. That is each
	 * read of a session whose policy speaks of programs or of changes alone.
	 */
	if (!(need & (base->flags >> SPOKEN))) {
		f->permit = base->permit;
		f->forbid = base->forbid;
		if (inner(f->mode))
			f->mode &= ~RECORDS;
		return;
	}
	/* From the map, so that the verifier takes them for unknown, and one state for all. */
	__u32 permit = base->permit, forbid = base->forbid, flags = 0;
	__u32 fileless = base->flags & NO_FILELESS;
	struct dentry *d = dentry;
	bool ended = 0;
	for (int i = 0; i < DEPTH; i++) {
		struct inode *inode = d->d_inode;
		if (inode) {
			struct bits *b = bits_of(policy, inode, &label);
			if (b) {
				permit |= b->permit;
				forbid |= b->forbid;
				if (i == 0)
					flags = b->flags;
				if (!f->label && (b->forbid & need)) {
					f->label = label;
					f->below = i;
				}
			}
		}
		struct dentry *parent = d->d_parent;
		if (parent == d) {
			ended = 1;
			break;
		}
		d = parent;
	}
	if (!ended) {
		f->why = TOO_DEEP;
		return;
	}
	struct super_block *sb = d->d_sb;
	if (d != sb->s_root) {
		/* A file handle of a tree that is not connected has no folders to ask. */
		if (!(sb->s_flags & SB_NOUSER)) {
			f->why = DETACHED;
			return;
		}
		f->nowhere = 1;
		permit |= READ | WRITE;
		if (fileless && (need & (EXEC | CODE)))
			f->why = FILELESS;
	}
	if (inner(f->mode)) {
		permit = ALL;
		f->mode &= ~RECORDS;
	}
	f->permit = permit;
	f->forbid = forbid;
	f->flags = flags;
}

static __always_inline void *policy_of(__u64 id)
{
	/* A session that was ended while its tasks live has no policy, and so no files. */
	return bpf_map_lookup_elem(&policies, &id);
}

/* mode_of is how the session's policy is kept: the flags of label 0. */
static __always_inline __u32 mode_of(__u64 id)
{
	void *policy = policy_of(id);
	__u64 label = 0;
	struct bits *base = policy ? bpf_map_lookup_elem(policy, &label) : 0;
	return base ? base->flags : 0;
}

/*
 * spell writes the names of a dentry and of those above it. It is for people, and so goes by
 * an address: a function of its own is looked at once by the verifier, not in each program.
 */
__attribute__((noinline)) int spell(struct event *e, unsigned long dentry)
{
	__u32 at = 0;
	if (!e)
		return 0;
	for (int i = 0; i < DEPTH; i++) {
		struct dentry *d = (void *)dentry;
		struct dentry *parent = 0;
		const unsigned char *name = 0;
		if (bpf_probe_read_kernel(&parent, sizeof(parent), &d->d_parent) ||
		    bpf_probe_read_kernel(&name, sizeof(name), &d->d_name.name))
			break;
		if (parent == d || at > NAMES - NAME)
			break;
		long n = bpf_probe_read_kernel_str(&e->names[at], NAME, name);
		if (n <= 0)
			break;
		at += n;
		dentry = (unsigned long)parent;
	}
	e->length = at;
	return 0;
}

/* write fills an event in. */
static __always_inline void write(struct event *e, struct dentry *dentry, __u8 op, __u8 need, __u8 why, struct found *f)
{
	struct task_struct *task = bpf_get_current_task_btf();
	e->when = bpf_ktime_get_boot_ns();
	e->label = f ? f->label : 0;
	e->below = f ? f->below : 0;
	e->tgid = task->tgid;
	e->op = op;
	e->need = need;
	e->why = why;
	e->ino = 0;
	e->dev = 0;
	e->let = 0;
	e->folder = 0;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
	e->length = 0;
	if (dentry) {
		struct inode *inode = dentry->d_inode;
		if (inode) {
			e->ino = inode->i_ino;
			e->folder = (inode->i_mode & S_IFMT) == S_IFDIR;
		}
		e->dev = dentry->d_sb->s_dev;
		/* What is read back of the event is a number to the verifier. */
		volatile __u64 *number = &e->when;
		__u64 when = *number;
		*number = (unsigned long)dentry;
		spell(e, *number);
		*number = when;
	}
}

/* tell sends an event to whoever watches the session, and says whether there was room. */
static __always_inline bool tell(__u64 id, struct dentry *dentry, __u8 op, __u8 need, __u8 why, struct found *f, bool let)
{
	struct session *s = bpf_map_lookup_elem(&sessions, &id);
	if (!s)
		return 0;
	if (why != ALLOWED)
		__sync_fetch_and_add(&s->denied, 1);
	void *ring = bpf_map_lookup_elem(&rings, &id);
	struct event *e = ring ? bpf_ringbuf_reserve(ring, sizeof(struct event), 0) : 0;
	if (!e) {
		__sync_fetch_and_add(&s->dropped, 1);
		return 0;
	}
	write(e, dentry, op, need, why, f);
	e->let = let;
	bpf_ringbuf_submit(e, 0);
	return 1;
}

/*
 * refuse reports what a policy refuses, and refuses it unless the session lets it pass. A
 * session that has ended refuses always.
 */
static __always_inline int refuse(__u64 id, struct dentry *dentry, __u8 op, __u8 need, __u8 why, struct found *f)
{
	bool let = why != NO_POLICY && (mode_of(id) & LETS);
	tell(id, dentry, op, need, why, f, let);
	return let ? 0 : -EACCES;
}

/*
 * record reports what is permitted, once for each object and way to use it: how often more
 * is a number. What found no room is counted as dropped, and reported the next time. A name
 * that comes or goes is reported of its folder.
 */
static __always_inline void record(__u64 id, struct dentry *dentry, __u8 op, __u8 need)
{
	if (op == EXECUTE)
		return; /* executed() tells, with its words */
	struct dentry *of = dentry;
	if (op == CREATE || op == REMOVE || op == LINK || op == RENAME)
		of = dentry->d_parent;
	struct inode *inode = of->d_inode;
	struct told *told = 0;
	__u32 way = op == OPEN && (need & WRITE) ? 1u << 31 : 1u << (op & 31);
	if (inode)
		told = bpf_inode_storage_get(&recorded, inode, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (told) {
		if (told->session != id) {
			told->session = id; /* another's is reported once more, and nothing is lost */
			told->ops = 0;
		}
		if (told->ops & way) {
			struct session *s = bpf_map_lookup_elem(&sessions, &id);
			if (s)
				__sync_fetch_and_add(&s->repeated, 1);
			return;
		}
	}
	if (tell(id, dentry, op, need, ALLOWED, 0, 0) && told)
		told->ops |= way;
}

/* judge is the verdict of a walk. */
static __always_inline __u8 verdict(struct found *f, __u32 need)
{
	if (f->why)
		return f->why;
	if (f->forbid & need)
		return FORBIDDEN;
	if (need & ~f->permit)
		return NOT_PERMITTED;
	return ALLOWED;
}

static __always_inline int judge(struct dentry *dentry, __u8 op, __u32 need)
{
	__u64 id = whose();
	if (!id || !need)
		return 0;
	void *policy = policy_of(id);
	if (!policy)
		return refuse(id, dentry, op, need, NO_POLICY, 0);
	struct found f;
	walk(policy, dentry, need, &f);
	__u8 why = verdict(&f, need);
	if (why)
		return refuse(id, dentry, op, need, why, &f);
	if (f.mode & RECORDS)
		record(id, dentry, op, need);
	return 0;
}

/* change judges what changes a name: the object is not to be one that holds a rule. */
static __always_inline int change(struct dentry *dentry, __u8 op)
{
	__u64 id = whose();
	if (!id)
		return 0;
	void *policy = policy_of(id);
	if (!policy)
		return refuse(id, dentry, op, WRITE, NO_POLICY, 0);
	struct found f;
	walk(policy, dentry, WRITE, &f);
	__u8 why = verdict(&f, WRITE);
	if (!why && (f.flags & HELD))
		why = HOLDS_RULE;
	if (why)
		return refuse(id, dentry, op, WRITE, why, &f);
	if (f.mode & RECORDS)
		record(id, dentry, op, WRITE);
	return 0;
}

/*
 * move judges that an object gets another place: it may be changed there, and what may be
 * done with it there could be done before (Landlock's REFER).
 */
static __always_inline int move(struct dentry *from, struct dentry *to, __u8 op)
{
	__u64 id = whose();
	if (!id)
		return 0;
	void *policy = policy_of(id);
	if (!policy)
		return refuse(id, from, op, WRITE, NO_POLICY, 0);
	struct found there, here;
	walk(policy, to, ALL, &there);
	__u8 why = verdict(&there, WRITE);
	if (why)
		return refuse(id, to, op, WRITE, why, &there);
	walk(policy, from, ALL, &here);
	if (here.why)
		return refuse(id, from, op, WRITE, here.why, &here);
	__u32 permit = there.permit, forbid = there.forbid;
	struct inode *inode = from->d_inode;
	if (inode) {
		__u64 label = 0;
		struct bits *own = bits_of(policy, inode, &label);
		if (own) {
			permit |= own->permit;
			forbid |= own->forbid;
		}
	}
	__u32 gain = (permit & ~forbid) & ~(here.permit & ~here.forbid);
	if (gain)
		return refuse(id, from, op, gain, GAIN, &here);
	if (there.mode & RECORDS)
		record(id, to, op, WRITE);
	return 0;
}

/* A hook that another module answered already has its answer. */
#define AFTER(ret) \
	if (ret)   \
		return ret

SEC("lsm/task_alloc")
int BPF_PROG(inherit, struct task_struct *task, unsigned long clone_flags, int ret)
{
	AFTER(ret);
	__u64 id = whose();
	if (id && !bpf_task_storage_get(&tasks, task, &id, BPF_LOCAL_STORAGE_GET_F_CREATE))
		return -EACCES; /* no memory for the label: rather no task than a free one */
	return 0;
}

static __always_inline __u32 need_of(struct file *file)
{
	__u32 mode = file->f_mode, need = 0;
	if (mode & FMODE_READ)
		need |= (file->f_path.dentry->d_inode->i_mode & S_IFMT) == S_IFDIR ? LIST : READ;
	if (mode & FMODE_WRITE)
		need |= WRITE;
	return need;
}

SEC("lsm/file_open")
int BPF_PROG(open_file, struct file *file, int ret)
{
	AFTER(ret);
	__u32 need = need_of(file);
	struct dentry *dentry = file->f_path.dentry;
	if (!(file->f_mode & FMODE_BACKING))
		return judge(dentry, OPEN, need);
	/*
	 * What an overlay opens below itself: the file that was asked for was judged. A
	 * permit speaks of that one; a forbid holds for both.
	 */
	__u64 id = whose();
	if (!id)
		return 0;
	void *policy = policy_of(id);
	if (!policy)
		return refuse(id, dentry, OPEN, need, NO_POLICY, 0);
	struct found f;
	walk(policy, dentry, need, &f);
	if (f.forbid & need)
		return refuse(id, dentry, OPEN, need, FORBIDDEN, &f);
	return 0;
}

SEC("lsm/file_receive")
int BPF_PROG(receive_file, struct file *file, int ret)
{
	AFTER(ret);
	return judge(file->f_path.dentry, RECEIVE, need_of(file));
}

SEC("lsm/mmap_file")
int BPF_PROG(map_file, struct file *file, unsigned long reqprot, unsigned long prot, unsigned long flags, int ret)
{
	AFTER(ret);
	if (!file || !(prot & PROT_EXEC))
		return 0; /* memory of no file is a compiler's that works while it runs */
	return judge(file->f_path.dentry, MAP, CODE);
}

SEC("lsm/file_mprotect")
int BPF_PROG(protect_memory, struct vm_area_struct *vma, unsigned long reqprot, unsigned long prot, int ret)
{
	AFTER(ret);
	if (!(prot & PROT_EXEC))
		return 0;
	struct file *file = vma->vm_file;
	if (!file)
		return 0;
	return judge(file->f_path.dentry, MAP, CODE);
}

SEC("lsm/bprm_check_security")
int BPF_PROG(execute, struct linux_binprm *bprm, int ret)
{
	AFTER(ret);
	/* Once for the script and once for each interpreter; what is no ELF is told of here alone. */
	return judge(bprm->file->f_path.dentry, bprm->buf[0] == 0x7f ? EXECUTE : SCRIPT, EXEC);
}

SEC("lsm/inode_create")
int BPF_PROG(create, struct inode *dir, struct dentry *dentry, unsigned short mode, int ret)
{
	AFTER(ret);
	return judge(dentry, CREATE, WRITE);
}

SEC("lsm/inode_mkdir")
int BPF_PROG(make_folder, struct inode *dir, struct dentry *dentry, unsigned short mode, int ret)
{
	AFTER(ret);
	return judge(dentry, CREATE, WRITE);
}

SEC("lsm/inode_mknod")
int BPF_PROG(make_node, struct inode *dir, struct dentry *dentry, unsigned short mode, __u32 dev, int ret)
{
	AFTER(ret);
	return judge(dentry, CREATE, WRITE);
}

SEC("lsm/inode_symlink")
int BPF_PROG(make_symlink, struct inode *dir, struct dentry *dentry, const char *old, int ret)
{
	AFTER(ret);
	return judge(dentry, CREATE, WRITE);
}

SEC("lsm/inode_link")
int BPF_PROG(make_link, struct dentry *old, struct inode *dir, struct dentry *dentry, int ret)
{
	AFTER(ret);
	return move(old, dentry, LINK);
}

SEC("lsm/inode_unlink")
int BPF_PROG(remove_name, struct inode *dir, struct dentry *dentry, int ret)
{
	AFTER(ret);
	return change(dentry, REMOVE);
}

SEC("lsm/inode_rmdir")
int BPF_PROG(remove_folder, struct inode *dir, struct dentry *dentry, int ret)
{
	AFTER(ret);
	return change(dentry, REMOVE);
}

/* An exchange of two names is judged twice, by the kernel, one way and the other. */
SEC("lsm/inode_rename")
int BPF_PROG(rename_old, struct inode *old_dir, struct dentry *old, struct inode *new_dir, struct dentry *new, int ret)
{
	AFTER(ret);
	return change(old, RENAME);
}

SEC("lsm/inode_rename")
int BPF_PROG(rename_new, struct inode *old_dir, struct dentry *old, struct inode *new_dir, struct dentry *new, int ret)
{
	AFTER(ret);
	return move(old, new, RENAME);
}

/* Modes, owners, times and sizes. Before 6.9 the hook has no id map. */
SEC("lsm/inode_setattr")
int BPF_PROG(set_attributes, struct mnt_idmap *idmap, struct dentry *dentry, struct iattr *attr, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

SEC("lsm/inode_setattr")
int BPF_PROG(set_attributes_old, struct dentry *dentry, struct iattr *attr, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

SEC("lsm/inode_setxattr")
int BPF_PROG(set_xattr, struct mnt_idmap *idmap, struct dentry *dentry, const char *name, const void *value, unsigned long size, int flags, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

SEC("lsm/inode_removexattr")
int BPF_PROG(remove_xattr, struct mnt_idmap *idmap, struct dentry *dentry, const char *name, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

/* Since 6.2; before that they were extended attributes. */
SEC("lsm/inode_set_acl")
int BPF_PROG(set_acl, struct mnt_idmap *idmap, struct dentry *dentry, const char *name, void *acl, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

SEC("lsm/inode_remove_acl")
int BPF_PROG(remove_acl, struct mnt_idmap *idmap, struct dentry *dentry, const char *name, int ret)
{
	AFTER(ret);
	return judge(dentry, ATTRIBUTES, WRITE);
}

/* Since 6.2; before that ftruncate asked by path, which inode_setattr has. */
SEC("lsm/file_truncate")
int BPF_PROG(truncate_file, struct file *file, int ret)
{
	AFTER(ret);
	return judge(file->f_path.dentry, ATTRIBUTES, WRITE);
}

/*
 * Mounts. An overlay over a folder shows its files as other inodes, and below Linux 6.7
 * what it opens of the layers is not asked about; to unmount shows what was covered.
 */
static __always_inline int mounting(void)
{
	__u64 id = whose();
	return id ? refuse(id, 0, MOUNT, 0, NO_MOUNTS, 0) : 0;
}

SEC("lsm/sb_mount")
int BPF_PROG(mount_old, const char *dev, const struct path *path, const char *type, unsigned long flags, void *data, int ret)
{
	AFTER(ret);
	return mounting();
}

SEC("lsm/sb_kern_mount")
int BPF_PROG(mount_new, const struct super_block *sb, int ret)
{
	AFTER(ret);
	return mounting();
}

SEC("lsm/move_mount")
int BPF_PROG(mount_move, const struct path *from, const struct path *to, int ret)
{
	AFTER(ret);
	return mounting();
}

SEC("lsm/sb_umount")
int BPF_PROG(unmount, void *mnt, int flags, int ret)
{
	AFTER(ret);
	return mounting();
}

SEC("lsm/sb_remount")
int BPF_PROG(remount, struct super_block *sb, void *options, int ret)
{
	AFTER(ret);
	return mounting();
}

SEC("lsm/sb_pivotroot")
int BPF_PROG(pivot, const struct path *old, const struct path *new, int ret)
{
	AFTER(ret);
	return mounting();
}

/*
 * A program was executed: with the words that it was given, of which the kernel made its own
 * copy before, in the new program's memory. They are advice: a program may read what it likes.
 */
SEC("lsm/bprm_committed_creds")
int BPF_PROG(executed, struct linux_binprm *bprm)
{
	__u64 id = whose();
	if (!id)
		return 0;
	struct session *s = bpf_map_lookup_elem(&sessions, &id);
	if (!s)
		return 0;
	void *ring = bpf_map_lookup_elem(&rings, &id);
	struct execution *e = ring ? bpf_ringbuf_reserve(ring, sizeof(struct execution), 0) : 0;
	if (!e) {
		__sync_fetch_and_add(&s->dropped, 1);
		return 0;
	}
	write(&e->event, bprm->file->f_path.dentry, EXECUTE, EXEC, ALLOWED, 0);
	unsigned long from = bprm->p;
	__u32 at = 0, count = bprm->argc;
	for (__u32 i = 0; i < 16; i++) {
		if (i >= count || at > WORDS - WORD)
			break;
		long n = bpf_probe_read_user_str(&e->words[at], WORD, (void *)from);
		if (n <= 0)
			break;
		at += n;
		from += n;
		if (n == WORD)
			break; /* it is longer, and where the next begins is not known */
	}
	e->length = at;
	e->count = count;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

#include "guards.h"
