package api

// PathReviews is what waits for a review.
const PathReviews = "/v1/reviews"

// ReviewDecision is a person's word about changed files: about the one at Path, or about
// those at Paths, for which a list answers, an entry for each in their order.
type ReviewDecision struct {
	Project  string   `json:"project"`
	Path     string   `json:"path,omitempty"`
	Paths    []string `json:"paths,omitempty"`
	Decision string   `json:"decision"` // keep|revert|trust|clean
}

// ReviewEntry is one changed file that programs of the host may run.
type ReviewEntry struct {
	Path    string `json:"path"`
	By      string `json:"by"`  // the cloister that changed it
	Why     string `json:"why"` // which programs run or obey it
	State   string `json:"state"`
	Project string `json:"project,omitempty"`
	// Error is why nothing was done about it, in the answer to a decision about several.
	Error *Error `json:"error,omitempty"`
}

// MostReviewed bounds the paths of one ReviewDecision.
const MostReviewed = 1000
