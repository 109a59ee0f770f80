package docker

const seccompArch = "SCMP_ARCH_AARCH64"
