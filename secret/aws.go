package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Kind says what a value is where it is more than one text.
type Kind string

// KindAWS is an access key of Amazon's services. An empty Kind is one text.
const KindAWS Kind = "aws"

// AWS is an access key: requests are signed with it, and the secret is in none.
type AWS struct {
	ID     Value
	Secret Value
	Token  Value // of a session; zero for a key that lasts
}

// awsText is an AWS as the vault keeps it.
type awsText struct {
	ID     string `json:"aws_access_key_id"`
	Secret string `json:"aws_secret_access_key"`
	Token  string `json:"aws_session_token,omitempty"`
}

// ParseAWS reads an access key as people have it: what `aws configure
// export-credentials` and a credential_process print (JSON), or lines of
// aws_access_key_id = ..., as a profile and `export` write them.
func ParseAWS(text string) (Value, error) {
	fields, err := awsFields(text)
	if err != nil {
		return Value{}, err
	}
	t := awsText{ID: fields["aws_access_key_id"], Secret: fields["aws_secret_access_key"],
		Token: fields["aws_session_token"]}
	switch {
	case t.ID == "":
		return Value{}, errors.New("an AWS access key has aws_access_key_id, and here is none")
	case t.Secret == "":
		return Value{}, errors.New("an AWS access key has aws_secret_access_key, and here is none")
	}
	for name, part := range map[string]string{"id": t.ID, "secret": t.Secret, "session token": t.Token} {
		if part == "" {
			continue
		}
		if _, err := New(part); err != nil {
			return Value{}, fmt.Errorf("the %s of the AWS access key: %w", name, err)
		}
	}
	if strings.Trim(t.ID, letters) != "" || len(t.ID) < 16 || len(t.ID) > 128 {
		return Value{}, errors.New("the id of an AWS access key has 16 to 128 letters and digits")
	}
	kept, err := json.Marshal(t)
	if err != nil {
		return Value{}, errors.New("the AWS access key cannot be kept") // the error could quote it
	}
	return Seal(string(kept)), nil
}

// awsFields are the parts of an access key by the names that profiles have for
// them. No error quotes what was read.
func awsFields(text string) (map[string]string, error) {
	fields := map[string]string{}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		var all map[string]any
		if json.Unmarshal([]byte(text), &all) != nil {
			return nil, errors.New("what begins like JSON is none")
		}
		names := map[string]string{"AccessKeyId": "aws_access_key_id", "SecretAccessKey": "aws_secret_access_key",
			"SessionToken": "aws_session_token"}
		if inner, ok := all["Credentials"].(map[string]any); ok { // of sts assume-role
			all = inner
		}
		for key, value := range all {
			if known, ok := names[key]; ok {
				key = known
			}
			if word, ok := value.(string); ok {
				fields[key] = word
			}
		}
		return fields, nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "export "))
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "[") {
			continue
		}
		key = strings.ToLower(strings.TrimSpace(key))
		if _, twice := fields[key]; twice {
			return nil, fmt.Errorf("more than one access key: %.40q stands twice", key)
		}
		fields[key] = strings.Trim(strings.TrimSpace(value), `"'`)
	}
	return fields, nil
}

// OpenAWS is the access key that a value of KindAWS is; false for every other.
func OpenAWS(v Value) (AWS, bool) {
	var t awsText
	text := v.Reveal()
	if !strings.HasPrefix(text, `{"aws_access_key_id":`) || json.Unmarshal([]byte(text), &t) != nil || t.ID == "" ||
		t.Secret == "" {
		return AWS{}, false
	}
	key := AWS{ID: Seal(t.ID), Secret: Seal(t.Secret)}
	if t.Token != "" {
		key.Token = Seal(t.Token)
	}
	return key, true
}

// AWSFields are the names of the parts in a profile, in the order of AWSParts.
func AWSFields() []string {
	return []string{"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
}

// AWSParts names the parts of an access key, in the order in which a binding names
// their variables.
func AWSParts() []string { return []string{"id", "secret", "token"} }

// Part is one of AWSParts.
func (k AWS) Part(name string) Value {
	switch name {
	case "id":
		return k.ID
	case "secret":
		return k.Secret
	}
	return k.Token
}
