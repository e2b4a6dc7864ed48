"""RecordList, RecordDict, their views and fields, and exports."""
