package hostexec

// The services by which git inside asks for a remote repository: the guardian
// answers them itself, and no git runs in what the cloister writes.
const (
	GitFetch = "git-upload-pack"
	GitPush  = "git-receive-pack"
)

// OfGit reports whether a request is for a remote repository, and which.
func (r *Request) OfGit() (service, url string, ok bool) {
	if len(r.Argv) != 2 {
		return "", "", false
	}
	service = string(r.Argv[0])
	return service, string(r.Argv[1]), service == GitFetch || service == GitPush
}
