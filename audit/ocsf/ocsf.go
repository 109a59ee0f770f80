// Package ocsf shows events of the record in the Open Cybersecurity Schema Framework, version 1.8,
// for tools that read security events of many programs.
//
// The promise: every kind of event has a class with all that the class requires, and each event
// names its number and its hash in the record, by which it can be found and proven there.
//
// It is a view: nothing reads it back, and the record stays what is proven.
//
// Most readers want [Of].
package ocsf

import (
	"path"
	"strings"

	"cloister/audit"
)

// SchemaVersion is the version of the schema that the events are of.
const SchemaVersion = "1.8.0"

// Event is one event of the schema. Members that its class does not have are absent.
type Event struct {
	ActivityID  int      `json:"activity_id"`
	CategoryUID int      `json:"category_uid"`
	ClassUID    int      `json:"class_uid"`
	TypeUID     int      `json:"type_uid"`
	SeverityID  int      `json:"severity_id"`
	Time        int64    `json:"time"` // milliseconds
	Metadata    metadata `json:"metadata"`
	Message     string   `json:"message,omitempty"`
	Count       uint64   `json:"count,omitempty"`
	Duration    int64    `json:"duration,omitempty"` // milliseconds
	StatusID    int      `json:"status_id,omitempty"`
	StatusCode  string   `json:"status_code,omitempty"`

	ActionID      int     `json:"action_id,omitempty"`
	DispositionID int     `json:"disposition_id,omitempty"`
	Policy        *entity `json:"policy,omitempty"`
	FirewallRule  *entity `json:"firewall_rule,omitempty"`

	Actor        *actor    `json:"actor,omitempty"`
	Device       *device   `json:"device,omitempty"`
	App          *product  `json:"app,omitempty"`
	Process      *process  `json:"process,omitempty"`
	File         *file     `json:"file,omitempty"`
	User         *entity   `json:"user,omitempty"`
	Service      *entity   `json:"service,omitempty"`
	API          *api      `json:"api,omitempty"`
	SrcEndpoint  *endpoint `json:"src_endpoint,omitempty"`
	DstEndpoint  *endpoint `json:"dst_endpoint,omitempty"`
	Query        *query    `json:"query,omitempty"`
	HTTPRequest  *request  `json:"http_request,omitempty"`
	HTTPResponse *response `json:"http_response,omitempty"`
	Traffic      *traffic  `json:"traffic,omitempty"`

	Unmapped unmapped `json:"unmapped"`
}

type metadata struct {
	Version     string   `json:"version"`
	Product     product  `json:"product"`
	Profiles    []string `json:"profiles"`
	EventCode   string   `json:"event_code"` // the kind
	Sequence    uint64   `json:"sequence"`
	UID         string   `json:"uid"` // the record's hash
	Correlation string   `json:"correlation_uid,omitempty"`
}

type product struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name,omitempty"`
}

type entity struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

type actor struct {
	AppName string  `json:"app_name"`
	Session *entity `json:"session,omitempty"`
}

type device struct {
	TypeID int    `json:"type_id"`
	Name   string `json:"name"`
}

type process struct {
	PID     int    `json:"pid,omitempty"`
	UID     string `json:"uid,omitempty"`
	Name    string `json:"name,omitempty"`
	Command string `json:"cmd_line,omitempty"`
}

type file struct {
	Name   string `json:"name"`
	Path   string `json:"path,omitempty"`
	TypeID int    `json:"type_id"`
}

type api struct {
	Operation string  `json:"operation"`
	Service   *entity `json:"service,omitempty"`
}

type endpoint struct {
	Name     string `json:"name,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	Port     uint16 `json:"port,omitempty"`
}

type query struct {
	Hostname string `json:"hostname"`
}

type request struct {
	Method string `json:"http_method,omitempty"`
	URL    *url   `json:"url,omitempty"`
}

type url struct {
	Hostname string `json:"hostname,omitempty"`
	Path     string `json:"path"`
	Port     uint16 `json:"port,omitempty"`
}

type response struct {
	Code int `json:"code"`
}

type traffic struct {
	Out int64 `json:"bytes_out"`
	In  int64 `json:"bytes_in"`
}

// unmapped is what the schema has no place for.
type unmapped struct {
	Session   string `json:"session,omitempty"`
	Project   string `json:"project,omitempty"`
	Action    string `json:"action,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Verdict   string `json:"verdict,omitempty"`
	Via       string `json:"via,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	Digest    string `json:"digest,omitempty"`
}

// Numbers of the schema.
const (
	severityInformational, severityMedium = 1, 3
	success, failure                      = 1, 2
	allowed, denied, observed             = 1, 2, 3 // actions
	dispositionAllowed, blocked, logged   = 1, 2, 17
	other                                 = 99
	virtual                               = 6 // a device
)

// Of is an event in the schema.
func Of(e audit.Event) Event {
	c, ok := classes[e.Kind]
	if !ok {
		c = class{category: application, number: apiActivity, fill: asCall, activity: always(other)}
	}
	out := Event{
		CategoryUID: c.category, ClassUID: c.category*1000 + c.number, ActivityID: c.activity(e),
		SeverityID: severityInformational,
		Time:       e.Time.UnixMilli(), Message: e.Reason, Count: e.Suppressed,
		Metadata: metadata{
			Version: SchemaVersion, Product: product{"Cloister", "Cloister"}, Profiles: []string{"security_control"},
			EventCode: e.Kind, Sequence: e.Seq, UID: e.Hash, Correlation: e.SessionID,
		},
		Unmapped: unmapped{e.Session, e.Project, e.Action, e.Resource, e.Verdict, e.Via, e.Isolation, e.Digest},
	}
	out.TypeUID = out.ClassUID*100 + out.ActivityID
	if e.DurationMS != nil {
		out.Duration = *e.DurationMS
	}
	switch e.Verdict {
	case "allow":
		out.ActionID, out.DispositionID, out.StatusID = allowed, dispositionAllowed, success
	case "deny":
		out.ActionID, out.DispositionID, out.StatusID, out.SeverityID = denied, blocked, failure, severityMedium
	case "ask":
		out.ActionID, out.DispositionID = observed, logged
	}
	if e.Policy != "" {
		out.Policy = &entity{UID: e.Policy}
	}
	if e.Rule != "" {
		out.FirewallRule = &entity{Name: e.Rule}
	}
	if e.BytesUp != nil && e.BytesDown != nil {
		out.Traffic = &traffic{*e.BytesUp, *e.BytesDown}
	}
	c.fill(&out, e)
	return out
}

// Categories, and the numbers of classes within them.
const (
	system, iam, network, application = 1, 3, 4, 6

	fileActivity, processActivity             = 1, 7
	authentication                            = 2
	networkActivity, httpActivity, dnsRequest = 1, 2, 3
	lifecycle, apiActivity                    = 2, 3
)

// class is how events of a kind are shown.
type class struct {
	category, number int
	activity         func(audit.Event) int
	fill             func(*Event, audit.Event)
}

func always(n int) func(audit.Event) int { return func(audit.Event) int { return n } }

// Activities: of files, of processes and calls, of sessions.
const (
	create, read, update, remove = 1, 2, 3, 4
	open                         = 14
	launch                       = 1
	logon                        = 1
	start, stop                  = 3, 4
)

var classes = map[audit.Kind]class{
	audit.GuardianStart: {application, lifecycle, always(start), asLife},
	audit.GuardianStop:  {application, lifecycle, always(stop), asLife},
	audit.SessionStart:  {application, lifecycle, always(start), asLife},
	audit.SessionStop:   {application, lifecycle, always(stop), asLife},

	audit.NetConnect:  {network, networkActivity, connection, asConnection},
	audit.NetDNS:      {network, dnsRequest, always(1), asQuery},
	audit.HTTPRequest: {network, httpActivity, method, asRequest},
	audit.TenantPort:  {network, networkActivity, always(1), asConnection},

	audit.Exec:            {system, processActivity, always(launch), asProcess},
	audit.HostexecRequest: {system, processActivity, always(launch), asProcess},
	audit.HostexecResult:  {system, processActivity, always(2), asProcess},

	audit.FileDenied:     {system, fileActivity, always(open), asFile},
	audit.FileOpen:       {system, fileActivity, always(open), asFile},
	audit.AutorunChanged: {system, fileActivity, always(update), asFile},
	audit.FileReview:     {system, fileActivity, always(other), asFile},
	audit.TenantFile:     {system, fileActivity, always(update), asFile},

	audit.SecretUse:    {iam, authentication, always(logon), asLogin},
	audit.TenantPerson: {iam, authentication, always(logon), asLogin},

	audit.MCPCall:          call(other),
	audit.ApprovalRequest:  call(create),
	audit.ApprovalDecision: call(update),
	audit.PolicyLoad:       call(update),
	audit.ResidueAccepted:  call(update),
	audit.StateCheckpoint:  call(create),
	audit.StateRestore:     call(update),
	audit.StateFork:        call(create),
	audit.StateApply:       call(update),
	audit.StateUndo:        call(update),
	audit.StateMemory:      call(create),
	audit.TenantAdd:        call(create),
	audit.TenantStop:       call(update),
	audit.TenantRemove:     call(remove),
	audit.TenantKeyAdd:     call(create),
	audit.TenantKeyRemove:  call(remove),
	audit.TenantSandbox:    call(update),
	audit.TenantTemplate:   call(update),
	audit.DevicePair:       call(create),
	audit.DeviceRemove:     call(remove),
}

func call(activity int) class { return class{application, apiActivity, always(activity), asCall} }

// connection is 5 for one that was refused, 2 for one that is over.
func connection(e audit.Event) int {
	switch {
	case e.Verdict == "deny" || e.Verdict == "ask":
		return 5
	case e.Action == "closed" || e.Action == "close":
		return 2
	}
	return 1
}

var methods = []string{"", "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE"}

func method(e audit.Event) int {
	for i, m := range methods {
		if i > 0 && m == e.Method {
			return i
		}
	}
	return other
}

// who is the session of an event, or Cloister itself.
func who(e audit.Event) string {
	if e.Session != "" {
		return e.Session
	}
	return "cloister"
}

func source(e audit.Event) *endpoint { return &endpoint{Name: who(e)} }

func actorOf(e audit.Event) *actor {
	a := &actor{AppName: "cloister"}
	if e.Agent != "" {
		a.AppName = e.Agent
	}
	if e.SessionID != "" {
		a.Session = &entity{UID: e.SessionID}
	}
	return a
}

func (out *Event) inside(e audit.Event) {
	out.Actor, out.Device = actorOf(e), &device{TypeID: virtual, Name: who(e)}
}

func asLife(out *Event, e audit.Event) { out.App = &product{Name: who(e)}; out.Actor = actorOf(e) }

func asConnection(out *Event, e audit.Event) {
	out.SrcEndpoint = source(e)
	if e.Host != "" {
		out.DstEndpoint = &endpoint{Hostname: e.Host, Port: e.Port}
	}
}

func asQuery(out *Event, e audit.Event) {
	out.SrcEndpoint = source(e)
	out.Query = &query{Hostname: first(e.Host, e.Resource, "unknown")}
}

func asRequest(out *Event, e audit.Event) {
	asConnection(out, e)
	out.HTTPRequest = &request{Method: e.Method, URL: &url{e.Host, first(e.Path, "/"), e.Port}}
	if e.Status != 0 {
		out.HTTPResponse = &response{e.Status}
	}
}

func asProcess(out *Event, e audit.Event) {
	out.inside(e)
	word, _, _ := strings.Cut(e.Resource, " ")
	out.Process = &process{PID: e.PID, UID: e.Hash, Name: path.Base(first(word, "unknown")), Command: e.Resource}
}

func asFile(out *Event, e audit.Event) {
	out.inside(e)
	where := first(e.Path, e.Resource, "unknown")
	out.File = &file{Name: path.Base(where), Path: where}
}

func asLogin(out *Event, e audit.Event) {
	out.User = &entity{Name: first(e.Resource, e.Action, who(e))}
	out.Service = &entity{Name: first(e.Host, "cloister")}
	out.SrcEndpoint = source(e)
	if e.Host != "" {
		out.DstEndpoint = &endpoint{Hostname: e.Host, Port: e.Port}
	}
}

func asCall(out *Event, e audit.Event) {
	out.Actor, out.SrcEndpoint = actorOf(e), source(e)
	out.API = &api{Operation: first(e.Kind, "unknown"), Service: &entity{Name: first(e.Host, "cloister")}}
}

// first is the first word that is not empty.
func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}
