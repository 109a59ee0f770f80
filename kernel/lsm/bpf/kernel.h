/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0 */
/*
 * The few fields of the kernel's structures that lsm.bpf.c reads. The loader finds their
 * real offsets in the BTF of the kernel that runs (CO-RE), so that neither order nor
 * completeness matters here, and no vmlinux.h of several megabytes is kept.
 */
#ifndef CLOISTER_KERNEL_H
#define CLOISTER_KERNEL_H

typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

/* include/uapi/linux/bpf.h */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_HASH_OF_MAPS 13
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_MAP_TYPE_INODE_STORAGE 28
#define BPF_MAP_TYPE_TASK_STORAGE 29
#define BPF_F_NO_PREALLOC 1
#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

/* include/linux/fs.h */
#define FMODE_READ 0x1
#define FMODE_WRITE 0x2
#define FMODE_BACKING (1u << 25) /* since 6.7; unused before */
#define SB_NOUSER (1ul << 31)    /* of what no path leads to: pipes, sockets, memfd */
#define PROT_EXEC 0x4
#define EACCES 13
#define S_IFMT 0170000
#define S_IFDIR 0040000

/* include/linux/socket.h, include/uapi/linux/in.h, include/uapi/linux/netlink.h */
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define AF_NETLINK 16
#define SOCK_STREAM 1
#define SOCK_DGRAM 2
#define SOCK_TYPE 0xf
#define IPPROTO_ICMP 1
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define IPPROTO_ICMPV6 58
#define NETLINK_ROUTE 0

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	__u32 s_dev;
	unsigned long s_flags;
	struct dentry *s_root;
};

struct inode {
	unsigned short i_mode;
	unsigned long i_ino;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	struct super_block *d_sb;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	__u32 f_mode;
};

typedef struct {
	__u32 val;
} kuid_t;

struct cred {
	kuid_t uid;
	kuid_t suid;
	kuid_t euid;
};

struct linux_binprm {
	unsigned long p; /* where the words of the new program begin */
	struct file *file;
	struct cred *cred;
	int argc;
	char buf[256]; /* how the file begins */
};

struct vm_area_struct {
	struct file *vm_file;
};

struct task_struct {
	int tgid;
	const struct cred *real_cred;
	const struct cred *cred;
};

struct sock {
	int sk_hash; /* nothing of it is read */
};

struct socket {
	struct sock *sk;
};

struct unix_sock {
	struct path path;
};

#pragma clang attribute pop

/* Passed on, never looked into. */
struct iattr;
struct kernel_siginfo;
struct key;
struct mnt_idmap;
union bpf_attr;

#endif
