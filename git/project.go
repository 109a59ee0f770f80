package git

import (
	"slices"
	"strings"
)

// ProjectURL is what git inside calls the project of its own session: cloister::project.
const ProjectURL = "project"

// branches is where the branches of sessions lie in a project.
const branches = "refs/heads/cloister/"

// ProjectBranch is the branch of the project that a session of a name brings its commits back by.
func ProjectBranch(name string) string { return strings.TrimPrefix(branches, "refs/heads/") + name }

// Uncommitted ends the name of the branch that has what a session left without a commit, and Kept of the one that has
// its commits where its own does not take them, as while a person has that checked out.
const (
	Uncommitted = "-uncommitted"
	Kept        = "-kept"
)

// OfProject is the project of a session as the other end of its git, by the folder of its main working tree.
func OfProject(dir string) (Remote, error) {
	r, err := fileRemote(dir, dir)
	r.project = true
	return r, err
}

// within begins each git that runs in a project. What the project configures starts nothing there: no hook, no
// command that lists the refs of alternates, and no way to another repository, by which git would fetch what a
// promisor has.
const within = "GIT_ALLOW_PROTOCOL= GIT_NO_LAZY_FETCH=1 git -c core.hooksPath=/dev/null -c core.fsmonitor=false " +
	"-c core.alternateRefsCommand= -c maintenance.auto=false -c gc.auto=0 "

// sender is the git that serves a fetch from a project.
const sender = within + "upload-pack"

// receiver is the git that takes a push in a project: no branch that is checked out moves, and nothing is tidied up
// beside the person.
const receiver = within + "-c receive.autogc=false -c receive.denyCurrentBranch=refuse -c receive.denyDeletes=true " +
	"-c receive.fsckObjects=true -c receive.updateServerInfo=false -c receive.advertisePushOptions=false receive-pack"

// sends are the words by which a project is asked; none for another remote.
func (r Remote) sends() []string {
	if !r.project {
		return nil
	}
	return []string{"--upload-pack=" + sender}
}

// OwnsBranch reports whether a session of a name has a branch by which its commits come back, and which none of another
// session's beside its own is called.
func OwnsBranch(name string) bool {
	return plainRef(branches+name) && !strings.HasSuffix(name, Uncommitted) && !strings.HasSuffix(name, Kept)
}

// MayBring reports whether an update is one by which a session of a name brings its commits back.
func (u *Update) MayBring(name string) bool {
	end, own := strings.CutPrefix(u.Ref, branches+name)
	return own && OwnsBranch(name) && plainRef(u.Ref) && u.New != zero &&
		slices.Contains([]string{"", Uncommitted, Kept}, end)
}

// brought is the name in a depot of what came last to a ref of a project by way of that.
func brought(ref string) string { return "refs/brought/" + strings.TrimPrefix(ref, "refs/") }
