package reading

import (
	"slices"
	"strings"

	"cloister/internal/authority"
)

// StoreKind is whose interface a store of objects has.
type StoreKind string

// The interfaces whose buckets are known here.
const (
	Unknown StoreKind = ""
	S3      StoreKind = "s3"
	GCS     StoreKind = "gcs"
)

// A Store is what the name of a host says of a store of objects.
type Store struct {
	Kind     StoreKind
	Endpoint authority.Authority // where buckets stand in the path
	Bucket   string              // that the host's name begins with; empty for the endpoint
}

const gcsHost = "storage.googleapis.com"

// StoreOf reads the name of a host: a label s3 or s3-… begins an endpoint of Amazon's
// and of those who took its names over; before it stands a bucket.
func StoreOf(to authority.Authority) Store {
	name := to.Host()
	if name == gcsHost {
		return Store{GCS, to, ""}
	}
	if bucket, ok := strings.CutSuffix(name, "."+gcsHost); ok {
		at, err := authority.Parse(gcsHost, to.Port())
		if err != nil {
			return Store{Unknown, to, ""}
		}
		return Store{GCS, at, bucket}
	}
	labels := strings.Split(name, ".")
	for i, label := range slices.Backward(labels) {
		if label != "s3" && !strings.HasPrefix(label, "s3-") {
			continue
		}
		at, err := authority.Parse(strings.Join(labels[i:], "."), to.Port())
		if err != nil || i == len(labels)-1 {
			break
		}
		return Store{S3, at, strings.Join(labels[:i], ".")}
	}
	return Store{Unknown, to, ""}
}

// settings are the keys of S3's and Google's XML interfaces that set who may use a
// bucket or an object, or where its contents go to (restore may write to another bucket).
var settings = []string{
	"acl", "accelerate", "analytics", "billing", "cors", "defaultobjectacl", "encryption", "intelligent-tiering",
	"inventory", "lifecycle", "logging",
	"metadataconfiguration", "metadatatable", "metrics", "notification", "object-lock", "ownershipcontrols", "policy",
	"policystatus",
	"publicaccessblock", "replication", "requestpayment", "restore", "session", "storageclass", "versioning", "website",
	"websiteconfig",
}

// keepers are the canned grants that leave an object to its bucket's owner.
var keepers = []string{"", "private", "bucket-owner-full-control", "bucket-owner-read", "bucketownerfullcontrol",
	"bucketownerread"}

// Leaves says in what a request does more at a store than read and write the objects
// of a bucket; empty where it does no more. kind is the interface where the host's
// name does not say one.
func (r *Request) Leaves(kind StoreKind) string {
	store := StoreOf(r.To)
	if store.Kind == Unknown {
		store.Kind = kind
	}
	if r.BadPath != nil {
		return r.BadPath.Error()
	}
	if why := r.grants(); why != "" {
		return why
	}
	if r.Method == "GET" || r.Method == "HEAD" || r.Method == "OPTIONS" {
		return ""
	}
	if store.Kind == GCS && r.continues != "" {
		return r.continues
	}
	segments := r.Path.Segments()
	if store.Kind == GCS && store.Bucket == "" {
		if at := bucketAt(segments); at > 0 && at < 5 && isJSON(segments[:at]) {
			if why := r.leavesJSON(segments[at:]); why != "" || !r.holdsMetadata(segments[0] == "upload") {
				return why
			}
			return r.gives
		}
	}
	if store.Bucket != "" {
		segments = append([]string{store.Bucket}, segments...)
	}
	keys := []string{}
	for key := range pairs(r.Query) {
		keys = append(keys, strings.ToLower(key))
	}
	for _, key := range keys {
		if slices.Contains(settings, key) {
			return "it sets " + key + " of the bucket or the object"
		}
	}
	switch {
	case r.Method == "POST" && r.isForm():
		return "it is a form, whose fields may give others a right to an object"
	case len(segments) == 0:
		return "it is for the store, not for a bucket"
	case len(segments) == 1 && !(r.Method == "POST" && slices.Contains(keys, "delete")):
		return "it changes the bucket itself"
	}
	return ""
}

// grants says what gives others a right to the object.
func (r *Request) grants() string {
	if r.Header != nil {
		for name, value := range r.Header {
			if why := grant(name, value); why != "" {
				return why
			}
		}
	}
	for key, value := range pairs(r.Query) {
		if why := grant(key, unescaped(value)); why != "" {
			return why
		}
	}
	return ""
}

func grant(name, value string) string {
	if len(name) < 5 {
		return ""
	}
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	canned := strings.ReplaceAll(name, "-", "")
	switch {
	case strings.HasPrefix(name, "x-") && (strings.HasSuffix(name, "-callback") || strings.HasSuffix(name,
		"-callback-var")):
		return "it has the store call another server: " + name
	case strings.HasPrefix(name, "x-") && strings.HasSuffix(name, "-process") && strings.Contains(strings.ToLower(value),
		"saveas"):
		return "it has the store write another object: " + name
	case strings.HasPrefix(name, "x-") && strings.Contains(name, "-grant-"):
	case (strings.HasPrefix(name, "x-") && strings.HasSuffix(name, "-acl") || strings.HasSuffix(canned, "predefinedacl") ||
		strings.HasSuffix(canned, "predefineddefaultobjectacl")) &&
		!slices.Contains(keepers, strings.ToLower(strings.TrimSpace(value))):
	default:
		return ""
	}
	return "it gives others a right to the object: " + name
}

// isForm reports whether stores may read the body as a form that writes an object.
func (r *Request) isForm() bool {
	for value := range r.Fields("Content-Type") {
		if strings.Contains(strings.ToLower(value), "form-data") {
			return true
		}
	}
	return false
}

// isJSON tells of the paths of Google's JSON API, as far as the bucket.
func isJSON(head []string) bool {
	return slices.Equal(head, []string{"storage", "v1", "b"}) || len(head) == 4 && slices.Equal(head[1:],
		[]string{"storage", "v1", "b"})
}

// leavesJSON is Leaves of Google's JSON API; rest is the path from the bucket on.
func (r *Request) leavesJSON(rest []string) string {
	switch {
	case len(rest) < 2 || rest[1] != "o":
		return "it changes the bucket itself"
	case slices.Contains(rest[2:], "acl"), slices.Contains(rest[2:], "iam"):
		return "it sets who may use the object"
	case r.Method == "PATCH", r.Method == "PUT" && len(rest) > 2:
		return "it sets what is said of the object, who may use it included"
	}
	return ""
}

// AllOf are paths that only a rule about the whole bucket matches, of a request that
// names objects of it in its body (DeleteObjects); none for every other.
func (r *Request) AllOf(kind StoreKind) []Name {
	store := StoreOf(r.To)
	if store.Kind == Unknown {
		store.Kind = kind
	}
	if store.Kind != S3 || r.Method != "POST" || r.BadPath != nil {
		return nil
	}
	for key := range pairs(r.Query) {
		if strings.EqualFold(key, "delete") {
			// No glob with a text of its own matches both.
			names, _ := r.joined(r.To, append(r.Path.Segments(), "*", "*", "*"))
			more, _ := r.joined(r.To, append(r.Path.Segments(), "~"))
			return append(names, more...)
		}
	}
	return nil
}
