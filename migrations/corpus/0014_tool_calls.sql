-- Conversations say whether tools are called in them: only then messages have columns for calls.
ALTER TABLE conversations ADD COLUMN has_tools BOOLEAN;
COMMENT ON COLUMN conversations.has_tools IS 'Whether a message has tool_calls, a tool_call_id or a name';
COMMENT ON COLUMN conversations.messages IS 'JSON list of {role, content: [{type, text}], loss_weight}, where tools are called with tool_calls, tool_call_id and name; of a preference pair the chosen ones';
