package api

// PathReviews is what waits for a review.
const PathReviews = "/v1/reviews"

// ReviewDecision is a person's word about one changed file.
type ReviewDecision struct {
	Project  string `json:"project"`
	Path     string `json:"path"`
	Decision string `json:"decision"` // keep|revert|trust|clean
}

// ReviewEntry is one changed file that programs of the host may run.
type ReviewEntry struct {
	Path    string `json:"path"`
	By      string `json:"by"`  // the cloister that changed it
	Why     string `json:"why"` // which programs run or obey it
	State   string `json:"state"`
	Project string `json:"project,omitempty"`
}
