package docker

const seccompArch = "SCMP_ARCH_X86_64"
