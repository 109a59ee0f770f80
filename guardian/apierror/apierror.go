// Package apierror turns what went wrong into an answer of the guardian's API.
//
// The promise: it is the one place that gives an error its code, its status and its hints,
// so that the same error is the same answer on every route. What it does not know is internal.
package apierror

import (
	"errors"
	"net/http"
	"slices"

	"cloister/api"
	"cloister/approval"
	"cloister/internal/source"
	"cloister/policyset"
	"cloister/secret/vault"
	"cloister/session/kept"
	"cloister/session/registry"
	"cloister/state/store"
)

// Of gives an error its code, its status and its hints.
func Of(err error) *api.Error {
	var (
		known      *api.Error
		taken      *registry.NameTaken
		bad        *registry.BadName
		impossible *registry.Impossible
		over       *approval.Over
		running    *registry.Running
		corrupt    *vault.CorruptError
		command    *vault.CommandError
		mounted    *store.Running
		refused    *kept.Refused
		held       *kept.Held
		against    *kept.InConflict
		busy       *store.Busy
		unkept     *kept.NoCheckpoint
	)
	const conflict = http.StatusConflict
	answer := func(status int, code api.Code, hints ...string) *api.Error {
		return &api.Error{Status: status, Code: code, Message: err.Error(), Hints: hints}
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &taken):
		return answer(conflict, api.CodeNameTaken, "choose another with --name, or stop it: cloister stop "+taken.Name)
	case errors.As(err, &running):
		e := answer(conflict, api.CodeRunning, "cloister attach "+running.Name)
		e.Session = running.Name
		return e
	case errors.As(err, &mounted):
		e := answer(conflict, api.CodeRunning, "cloister stop "+mounted.Name)
		e.Session = mounted.Name
		return e
	case errors.As(err, &bad):
		return answer(http.StatusBadRequest, api.CodeBadRequest)
	case errors.As(err, &impossible), errors.As(err, &held), errors.As(err, &against), errors.As(err, &busy),
		errors.As(err, &unkept):
		return answer(conflict, api.CodeBadRequest)
	case errors.As(err, &refused):
		return answer(conflict, api.CodeBadRequest, refused.Hints()...)
	case errors.As(err, &over):
		return answer(conflict, api.CodeOver)
	case errors.Is(err, vault.ErrNotFound):
		return answer(http.StatusNotFound, api.CodeNotFound, "see: cloister secret list")
	case errors.As(err, &corrupt):
		return answer(conflict, api.CodeVault, corrupt.Hints()...)
	case errors.As(err, &command):
		return answer(http.StatusUnprocessableEntity, api.CodeVault, command.Hints()...)
	case errors.Is(err, approval.ErrNotFound):
		return answer(http.StatusNotFound, api.CodeNotFound, "see: cloister approvals list")
	case errors.Is(err, registry.ErrNotFound):
		return answer(http.StatusNotFound, api.CodeNotFound, "see: cloister list -a")
	case errors.Is(err, store.ErrNotFound):
		return answer(http.StatusNotFound, api.CodeNotFound)
	}
	if list := policyset.Problems(err); slices.ContainsFunc(list, func(p api.Problem) bool { return p.File != "" }) {
		return policyRefusal(list)
	}
	return answer(http.StatusInternalServerError, api.CodeInternal)
}

// policyRefusal tells the first problem in the message, all others as hints.
func policyRefusal(list []api.Problem) *api.Error {
	e := &api.Error{
		Status: http.StatusUnprocessableEntity, Code: api.CodePolicy, Message: "load policy: " + spell(list[0]),
	}
	if list[0].Hint != "" {
		e.Hints = append(e.Hints, list[0].Hint)
	}
	for _, p := range list[1:] {
		e.Hints = append(e.Hints, "also "+spell(p))
	}
	return e
}

func spell(p api.Problem) string {
	place := source.Position{File: p.File, Line: p.Line, Column: p.Column}.String()
	if place == "" {
		return p.Message
	}
	return place + ": " + p.Message
}
