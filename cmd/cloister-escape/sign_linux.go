package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"cloister/secret/sigv4"
)

// sign sends a request to tls:NAME that is signed with the access key of the environment,
// as a program with Amazon's library does: REGION METHOD TARGET [FIELD: VALUE ...]. Fields
// that begin with x-amz- are signed; one behind a first word "unsigned" is sent and is not.
func sign(words []string) error {
	if len(words) < 4 {
		return errors.New("sign: to whom, which region, which method and target?")
	}
	to, region, method, target := words[0], words[1], words[2], words[3]
	host := strings.TrimPrefix(to, "tls:")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	now := time.Now().UTC()
	fields := map[string][]string{
		"host": {host}, "x-amz-date": {now.Format(sigv4.TimeForm)}, "x-amz-content-sha256": {"UNSIGNED-PAYLOAD"},
	}
	var head []string
	signed := true
	for _, field := range words[4:] {
		if field == "unsigned" {
			signed = false
			continue
		}
		head = append(head, field)
		name, value, _ := strings.Cut(field, ":")
		if name = strings.ToLower(name); signed && strings.HasPrefix(name, "x-amz-") {
			fields[name] = append(fields[name], strings.TrimSpace(value))
		}
	}
	as := sigv4.Signature{
		KeyID: os.Getenv("AWS_ACCESS_KEY_ID"), Day: now.Format("20060102"), Region: region, Service: "s3",
	}
	for name := range fields {
		as.Signed = append(as.Signed, name)
	}
	slices.Sort(as.Signed)
	path, query, _ := strings.Cut(target, "?")
	as.Sum = sigv4.Sum(sigv4.Request{
		Method: method, Path: path, Query: query, Time: fields["x-amz-date"][0], Payload: "UNSIGNED-PAYLOAD",
		Header: func(name string) []string { return fields[name] },
	}, as, sigv4.SpellingOf(as.Service), os.Getenv("AWS_SECRET_ACCESS_KEY"))
	head = append(head,
		"X-Amz-Date: "+fields["x-amz-date"][0], "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD",
		fmt.Sprintf("Authorization: %s Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=%s, Signature=%s",
			sigv4.Algorithm, as.KeyID, as.Day, region, as.Service, strings.Join(as.Signed, ";"), as.Sum))
	if token := os.Getenv("AWS_SESSION_TOKEN"); token != "" {
		head = append(head, sigv4.TokenHeader+": "+token)
	}
	return say([]string{to, method + " " + target + " HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\n" +
		strings.Join(head, "\r\n") + "\r\n\r\n"})
}

// txt asks the resolver for the TXT records of each name, and prints what came of it.
func txt(names []string) error {
	for _, name := range names {
		records, err := net.LookupTXT(name)
		fmt.Println(name, records, err)
	}
	return nil
}
