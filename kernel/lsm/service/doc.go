// Package service has root judge the files and programs of users' own control groups, by
// kernel/lsm: for cloisters that no root starts.
//
// Promise: a peer is given one thing, that a control group which belongs to it is judged by what it
// says; who the peer is says the kernel (SO_PEERCRED), whose the group is its descriptor, and which
// files are meant their descriptors, never a path. What a peer sends is bounded and checked before
// it is used. Tasks of other users, set-id programs above all, never come under a peer's policy,
// and no task under one becomes another user.
//
// It compiles no policy and reads no file. A peer that ends its connection ends its session, whose
// tasks open nothing from then on; a service that ends leaves the kernel judging.
//
// Most readers want [Server] and [Dial].
package service

// Socket is where the service listens.
const Socket = "/run/cloister-lsm/socket"

// Name is the service's, for the service manager.
const Name = "cloister-lsm.service"
